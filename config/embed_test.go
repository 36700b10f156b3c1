package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/shared"
)

func decodeEmbedded(t *testing.T, src string, ctx *hcl.EvalContext, opts SandboxOptions) (string, hcl.Diagnostics) {
	t.Helper()
	file, diags := hclsyntax.ParseConfig([]byte(src), "x.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	def, diags := DecodeSandbox(file.Body, ctx, opts)
	return string(def.Config), diags
}

func TestDecodeSandbox(t *testing.T) {
	t.Parallel()
	schema := func(engine string) (shared.OptionSchema, error) {
		if engine != "mine" {
			return shared.OptionSchema{}, errors.New("no such engine")
		}
		return testSchema, nil
	}
	unknown := &hcl.EvalContext{Variables: map[string]cty.Value{"later": cty.UnknownVal(cty.String)}}
	for name, tt := range map[string]struct {
		src, config, err string
		ctx              *hcl.EvalContext
		opts             SandboxOptions
	}{
		"options":          {src: "engine = \"mine\"\nconfig {\n image = \"x\"\n}\n", config: `{"image":"x"}`, opts: SandboxOptions{Engines: []string{"mine"}, Schema: schema}},
		"bad options":      {src: "engine = \"mine\"\nconfig {\n imgae = \"x\"\n}\n", err: `Did you mean "image"`, opts: SandboxOptions{Engines: []string{"mine"}, Schema: schema}},
		"required options": {src: "engine = \"mine\"\n", err: "needs the option image", opts: SandboxOptions{Engines: []string{"mine"}, Schema: schema}},
		"no schema":        {src: "engine = \"bwrap\"\nconfig {}\n", err: "not supported here"},
		"schema fails":     {src: "engine = \"bwrap\"\nconfig {}\n", err: "no such engine", opts: SandboxOptions{Schema: schema}},
		"relative":         {src: `bind_paths = ["x"]`, err: "relative"},
		"home":             {src: `bind_paths = ["~/x"]`, err: "home"},
		"unknown value":    {src: `workdir = later`, ctx: unknown, err: "not known yet"},
		"no variables":     {src: `workdir = env.X`, err: "Variables not allowed"},
		"docker declared":  {src: `engine = "docker"`, opts: SandboxOptions{Engines: []string{"docker"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, diags := decodeEmbedded(t, tt.src, tt.ctx, tt.opts)
			if got != tt.config || diags.HasErrors() != (tt.err != "") || !strings.Contains(diags.Error(), tt.err) {
				t.Errorf("got %s, %v", got, diags)
			}
		})
	}
}
