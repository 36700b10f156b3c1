package enginetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// environmentActions tell what this process was given.
func environmentActions() map[string]action {
	return map[string]action{
		"environment": func([]string) (string, error) { return asJSON(os.Environ()) },
		"arguments":   func(args []string) (string, error) { return asJSON(args) },
		"variables": anyOf(func(name string) (string, error) {
			if value, ok := os.LookupEnv(name); ok {
				return value, nil
			}
			return "", errors.New("none of them is set")
		}),
		"directory": func(args []string) (string, error) {
			dir, err := os.Getwd()
			if err == nil && dir != args[0] {
				err = fmt.Errorf("it is %q", dir)
			}
			return dir, err
		},
		"empty-stdin": func([]string) (string, error) {
			n, err := io.Copy(io.Discard, os.Stdin)
			if err == nil && n > 0 {
				err = fmt.Errorf("it held %d bytes", n)
			}
			return "", err
		},
	}
}

func asJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
