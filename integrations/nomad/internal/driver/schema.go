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

// typeOf is the type of a block that is decoded into a struct.
func typeOf(block any) cty.Type {
	t, err := gocty.ImpliedType(block)
	if err != nil {
		panic(err)
	}
	return t
}

// schema returns the attributes of a block for Nomad.
func schema(block any, required ...string) *hclspec.Spec {
	object := map[string]*hclspec.Spec{}
	for name, of := range typeOf(block).AttributeTypes() {
		kind := of.FriendlyName()
		if of.IsListType() {
			kind = "list(" + of.ElementType().FriendlyName() + ")"
		}
		object[name] = hclspec.AttrSpec(&hclspec.Attr{Name: name, Type: kind, Required: slices.Contains(required, name)})
	}
	return hclspec.ObjectSpec(&hclspec.Object{Attributes: object})
}

// decode reads a block that Nomad has parsed by its schema.
func decode(data []byte, into any) error {
	value, err := msgpack.Unmarshal(data, typeOf(into))
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
	if err := decode(data, &c); err != nil {
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
