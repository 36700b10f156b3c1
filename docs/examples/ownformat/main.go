// Ownformat is a program whose own HCL files have sandbox blocks in them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/plugins/native"
)

const pipeline = `
step "test" {
  sandbox {
    engine = "native"
    limits {
      timeout = "2m"
    }
  }
}
step "build" {
  sandbox {
    engine     = "native"
    bind_paths = ["/no-such-cache"]
  }
}
`

func main() {
	builtins := host.ServeBuiltin(native.New())
	h, err := host.New(context.Background(), host.Options{Builtins: builtins})
	if err == nil {
		defer h.Close()
		err = run(context.Background(), h, pipeline, "pipeline.hcl")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// run runs the steps of a file, each in the sandbox that it has.
func run(ctx context.Context, h *host.Host, text, filename string) error {
	file, diags := hclsyntax.ParseConfig([]byte(text), filename, hcl.InitialPos)
	if diags.HasErrors() {
		return diags
	}
	content, diags := file.Body.Content(&hcl.BodySchema{
		Blocks: []hcl.BlockHeaderSchema{{Type: "step", LabelNames: []string{"name"}}},
	})
	for _, step := range content.Blocks {
		inner, more := step.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "sandbox"}}})
		diags = append(diags, more...)
		for _, block := range inner.Blocks {
			def, more := config.DecodeSandbox(block.Body, nil, config.SandboxOptions{Dir: h.Root(), Engines: h.EngineNames()})
			diags = append(diags, more...)
			if more.HasErrors() {
				continue
			}
			out, err := h.CommandIn(ctx, def, "echo", "in a sandbox").Output()
			if _, ok := errors.AsType[*host.SandboxError](err); ok {
				diags = append(diags, config.DiagnoseSandbox(block.Body, err)...) // with the line
				continue
			} else if err != nil {
				return err
			}
			fmt.Printf("%s: %s", step.Labels[0], out)
		}
	}
	if diags.HasErrors() {
		return diags
	}
	return nil
}
