package driver

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/hashicorp/nomad/plugins/shared/hclspec"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/gocty"
	"github.com/zclconf/go-cty/cty/msgpack"
)

// agentConfig is the plugin's config block in the agent's configuration. The operator writes it.
type agentConfig struct {
	// Definitions is the file that defines the sandboxes.
	Definitions string `cty:"definitions"`
	// Sandboxes are those that jobs may use; a job that names none gets the first.
	Sandboxes []string `cty:"sandboxes"`
	// Publish lets Nomad's ports lead into sandboxes that do not have the host's network.
	Publish *bool `cty:"publish"`
}

// jobConfig is the config block of a task.
type jobConfig struct {
	Sandbox *string  `cty:"sandbox"`
	Command *string  `cty:"command"`
	Args    []string `cty:"args"`
	Script  *string  `cty:"script"`
	// Network is the part of its sandbox's network that the task needs; nil means all of it.
	Network []string `cty:"network"`
	// CPUHardLimit makes the task's share of the node's processors a limit.
	CPUHardLimit *bool `cty:"cpu_hard_limit"`
}

// An attr is an attribute of one of those blocks.
type attr struct {
	name     string
	of       cty.Type
	required bool
}

var (
	agentAttrs = []attr{{"definitions", cty.String, true}, {"sandboxes", cty.List(cty.String), true}, {"publish", cty.Bool, false}}
	jobAttrs   = []attr{{"sandbox", cty.String, false}, {"command", cty.String, false}, {"args", cty.List(cty.String), false},
		{"script", cty.String, false}, {"network", cty.List(cty.String), false}, {"cpu_hard_limit", cty.Bool, false}}
	typeNames = map[string]string{"string": "string", "bool": "bool", "list of string": "list(string)"}
)

// schema returns the attributes for Nomad.
func schema(attrs []attr) *hclspec.Spec {
	object := map[string]*hclspec.Spec{}
	for _, a := range attrs {
		object[a.name] = hclspec.AttrSpec(&hclspec.Attr{Name: a.name, Type: typeNames[a.of.FriendlyName()], Required: a.required})
	}
	return hclspec.ObjectSpec(&hclspec.Object{Attributes: object})
}

// decode reads a block that Nomad has parsed by its schema.
func decode(data []byte, attrs []attr, into any) error {
	types := map[string]cty.Type{}
	for _, a := range attrs {
		types[a.name] = a.of
	}
	value, err := msgpack.Unmarshal(data, cty.Object(types))
	if err == nil && (!value.IsKnown() || value.IsNull()) {
		err = fmt.Errorf("it is empty")
	}
	if err == nil {
		err = gocty.FromCtyValue(value, into)
	}
	if err != nil {
		return fmt.Errorf("config: what Nomad sent is not what its schema asks for: %w", err)
	}
	return nil
}

func decodeAgent(data []byte) (c agentConfig, err error) {
	if err := decode(data, agentAttrs, &c); err != nil {
		return c, err
	}
	switch {
	case !filepath.IsAbs(c.Definitions):
		return c, fmt.Errorf("definitions: %q is not an absolute path: name the file that defines the sandboxes", c.Definitions)
	case len(c.Sandboxes) == 0 || slices.Contains(c.Sandboxes, ""):
		return c, fmt.Errorf("sandboxes: list the names of the sandboxes that jobs may use")
	}
	return c, nil
}
