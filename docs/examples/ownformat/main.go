// Ownformat is a program whose own HCL files have sandbox blocks in them.
package main

import (
	"fmt"
	"os"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

const pipeline = `
step "test" {
  sandbox {
    engine     = "native"
    bind_paths = ["cache"]
    limits {
      timeout = "2m"
    }
  }
}
`

// definitions reads the sandbox of each step.
func definitions(text, filename, dir string) (map[string]host.Definition, hcl.Diagnostics) {
	file, diags := hclsyntax.ParseConfig([]byte(text), filename, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	content, diags := file.Body.Content(&hcl.BodySchema{
		Blocks: []hcl.BlockHeaderSchema{{Type: "step", LabelNames: []string{"name"}}},
	})
	found := map[string]host.Definition{}
	for _, step := range content.Blocks {
		inner, more := step.Body.Content(&hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{{Type: "sandbox"}}})
		diags = append(diags, more...)
		for _, block := range inner.Blocks {
			def, more := config.DecodeSandbox(block.Body, nil, config.SandboxOptions{Dir: dir})
			diags = append(diags, more...)
			found[step.Labels[0]] = def
		}
	}
	return found, diags
}

func main() {
	found, diags := definitions(pipeline, "pipeline.hcl", "/ci")
	if diags.HasErrors() {
		fmt.Fprintln(os.Stderr, diags)
		os.Exit(1)
	}
	for name, def := range found {
		fmt.Println(name, def.Engine, def.BindPaths[0].Host, def.Limits.Timeout)
	}
}
