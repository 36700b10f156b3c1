package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// enginesSchemaCommand shows the options of engines.
type enginesSchemaCommand struct{ *app }

func (*enginesSchemaCommand) Synopsis() string   { return "Show the options that engines take" }
func (*enginesSchemaCommand) takesCommand() bool { return false }

func (*enginesSchemaCommand) Help() string {
	return `Usage: sbxhost engines schema [-config FILE] [-json | -json-schema] [NAME...]

Show what a config block may hold for an engine, and what the engine can do. An
engine that is not built in is started for it. Without NAME it shows all.

  -json         what an engine's argument describe prints, in a list
  -json-schema  a JSON Schema of the config block of the one NAME

Example:
  sbxhost engines schema bwrap`
}

// Run implements subcommand.
func (c *enginesSchemaCommand) Run(args []string) int {
	fs := newFlags("engines schema")
	explicit := configFlag(fs)
	asJSON := fs.Bool("json", false, "")
	asSchema := fs.Bool("json-schema", false, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	if *asSchema && (*asJSON || fs.NArg() != 1) {
		return c.usage(fs, fmt.Errorf("-json-schema takes one NAME and no -json"))
	}
	ctx := context.Background()
	s, h, err := c.host(ctx, *explicit)
	if err != nil {
		return c.explainError(nil, nil, err)
	}
	defer h.Close()
	names, err := engineNames(h, fs.Args())
	if err != nil {
		return c.fail(err)
	}
	list := []shared.Info{}
	for _, name := range names {
		info, ok := c.builtinInfo(ctx, s.options, name)
		if !ok {
			if info, err = h.EngineInfo(ctx, name); err != nil {
				return c.fail(err)
			}
		}
		info.Name = name
		list = append(list, info)
	}
	switch {
	case *asSchema:
		text, err := list[0].Options.JSONSchema("the config block of engine " + names[0])
		if err != nil {
			return c.fail(err)
		}
		return c.print(string(text) + "\n")
	case *asJSON:
		return c.printJSON(list)
	}
	var b strings.Builder
	for i := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		schemaText(&b, &list[i])
	}
	return c.print(b.String())
}

// schemaText shows a schema the way a config block is written.
func schemaText(b *strings.Builder, info *shared.Info) {
	fmt.Fprintf(b, "%s %s: %s\n", printable(info.Name), printable(info.Version), printable(info.Doc))
	features := make([]string, len(info.Features))
	for i, f := range info.Features {
		features[i] = string(f)
	}
	slices.Sort(features)
	fmt.Fprintf(b, "  features: %s\n", printable(strings.Join(features, ", ")))
	if len(info.Options.Attributes) == 0 && len(info.Options.Blocks) == 0 {
		b.WriteString("  options: none\n")
		return
	}
	b.WriteString("  options:\n")
	attributeTable(b, "    ", info.Options.Attributes)
	for _, block := range info.Options.Blocks {
		fmt.Fprintf(b, "    %s { ... }  %s\n", printable(block.Name), printable(block.Doc))
		attributeTable(b, "      ", block.Attributes)
	}
}

func attributeTable(b *strings.Builder, indent string, attrs []shared.OptionAttribute) {
	var rows [][]string
	for _, a := range attrs {
		doc := a.Doc
		switch {
		case a.Required:
			doc += " (required)"
		case len(a.Default) > 0:
			doc += " (default " + string(a.Default) + ")"
		}
		rows = append(rows, []string{printable(a.Name), printable(string(a.Type)), printable(doc)})
	}
	table(b, indent, rows)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
