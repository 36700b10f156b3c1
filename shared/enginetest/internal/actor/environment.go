package actor

import (
	"encoding/json"
	"errors"
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
	}
}

func asJSON(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
