package config_test

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/config"
)

// A program with a file format of its own lets its users write a sandbox block
// in it.
func ExampleDecodeSandbox() {
	const pipeline = `
step "test" {
  command = ["npm", "test"]

  sandbox {
    engine     = "bwrap"
    bind_paths = ["cache", "${tools}/node"]
    limits {
      timeout = "2m"
    }
  }
}
`
	file, diags := hclsyntax.ParseConfig([]byte(pipeline), "/ci/pipeline.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		fmt.Println(diags)
		return
	}
	content, _ := file.Body.Content(&hcl.BodySchema{
		Blocks: []hcl.BlockHeaderSchema{{Type: "step", LabelNames: []string{"name"}}},
	})
	ctx := &hcl.EvalContext{Variables: map[string]cty.Value{"tools": cty.StringVal("/opt")}}
	for _, step := range content.Blocks {
		body, diags := step.Body.Content(&hcl.BodySchema{
			Attributes: []hcl.AttributeSchema{{Name: "command"}},
			Blocks:     []hcl.BlockHeaderSchema{{Type: "sandbox"}},
		})
		if diags.HasErrors() {
			fmt.Println(diags)
			return
		}
		for _, block := range body.Blocks {
			def, diags := config.DecodeSandbox(block.Body, ctx, config.SandboxOptions{Dir: "/ci"})
			if diags.HasErrors() {
				fmt.Println(diags)
				return
			}
			fmt.Println(step.Labels[0], def.Engine, def.BindPaths[0].Host, def.BindPaths[1].Host, def.Limits.Timeout)
		}
	}
	// Output: test bwrap /ci/cache /opt/node 2m0s
}
