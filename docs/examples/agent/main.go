// Agent runs one command for a model and gives back what the model needs, as JSON.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/native"
)

func main() {
	builtins := host.ServeBuiltin(native.New())
	h, err := host.New(context.Background(), host.Options{
		Builtins:  builtins,
		Sandboxes: map[string]host.Definition{"agent": {Engine: "native", Limits: host.Limits{Timeout: time.Minute}}},
	})
	if err != nil {
		panic(err)
	}
	defer h.Close()
	var stdout, stderr bytes.Buffer
	cmd := h.Command(context.Background(), "agent")
	cmd.Script, cmd.Stdout, cmd.Stderr = os.Args[1], &stdout, &stderr
	_ = cmd.Run() // the report tells
	report := cmd.Report()
	json.NewEncoder(os.Stdout).Encode(map[string]any{
		"outcome": report.Outcome, "exit_code": report.ExitCode, "error": report.Error,
		"stdout": stdout.String(), "denials": report.Denials,
	})
}
