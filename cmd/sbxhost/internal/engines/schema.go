package engines

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// Schema shows the options of engines.
func Schema(a *cli.App, fs *flag.FlagSet) func() error {
	asJSON := cli.JSONFlag(fs)
	asSchema := fs.Bool("json-schema", false, "")
	return setup.WithHost(a, cli.ConfigFlag(fs), true, func(ctx context.Context, s *setup.Setup, h *host.Host) error {
		if *asSchema && (*asJSON || fs.NArg() != 1) {
			return cli.Usage(fs, fmt.Errorf("-json-schema takes one NAME and no -json"))
		}
		names, err := engineNames(h, fs.Args())
		if err != nil {
			return err
		}
		list := []shared.Info{}
		var texts []string
		for _, name := range names {
			info, ok := setup.Caller(a).BuiltinInfo(ctx, s.Options, name)
			if !ok {
				if info, err = h.EngineInfo(ctx, name); err != nil {
					return err
				}
			}
			info.Name = name
			list, texts = append(list, info), append(texts, schemaText(&info))
		}
		if *asSchema {
			text, err := jsonSchema(list[0].Options, "the config block of engine "+names[0])
			if err != nil {
				return err
			}
			return a.Print(string(text) + "\n")
		}
		return a.Result(*asJSON, list, strings.Join(texts, "\n"))
	})
}

// schemaText shows a schema the way a config block is written.
func schemaText(info *shared.Info) string {
	features := make([]string, len(info.Features))
	for i, f := range info.Features {
		features[i] = string(f)
	}
	slices.Sort(features)
	text := fmt.Sprintf("%s %s: %s\n  features: %s\n", cli.Printable(info.Name), cli.Printable(info.Version), cli.Printable(info.Doc), cli.Printable(strings.Join(features, ", ")))
	if len(info.Options.Attributes) == 0 && len(info.Options.Blocks) == 0 {
		return text + "  options: none\n"
	}
	text += "  options:\n" + attributeTable("    ", info.Options.Attributes)
	for _, block := range info.Options.Blocks {
		text += fmt.Sprintf("    %s { ... }  %s\n", cli.Printable(block.Name), cli.Printable(block.Doc)) + attributeTable("      ", block.Attributes)
	}
	return text
}

func attributeTable(indent string, attrs []shared.OptionAttribute) string {
	var rows [][]string
	for _, a := range attrs {
		doc := a.Doc
		switch {
		case a.Required:
			doc += " (required)"
		case len(a.Default) > 0:
			doc += " (default " + string(a.Default) + ")"
		}
		rows = append(rows, []string{cli.Printable(a.Name), cli.Printable(string(a.Type)), cli.Printable(doc)})
	}
	return cli.Table(indent, rows)
}

// jsonSchema describes the object that a Spec's Options hold, and so a config
// block in its JSON form, as a JSON Schema of draft 2020-12.
func jsonSchema(s shared.OptionSchema, title string) ([]byte, error) {
	root := objectSchema(s.Attributes)
	root["$schema"], root["title"] = "https://json-schema.org/draft/2020-12/schema", title
	properties := root["properties"].(map[string]any)
	for _, b := range s.Blocks {
		block := objectSchema(b.Attributes)
		block["description"] = b.Doc
		properties[b.Name] = block
	}
	return json.MarshalIndent(root, "", "  ")
}

func objectSchema(attrs []shared.OptionAttribute) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, a := range attrs {
		p := typeSchema(a.Type)
		if a.Doc != "" {
			p["description"] = a.Doc
		}
		if len(a.Default) > 0 {
			p["default"] = a.Default
		}
		properties[a.Name] = p
		if a.Required {
			required = append(required, a.Name)
		}
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		object["required"] = required
	}
	return object
}

func typeSchema(t shared.OptionType) map[string]any {
	switch t {
	case shared.OptionStringList:
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	case shared.OptionStringMap:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	case shared.OptionBool:
		return map[string]any{"type": "boolean"}
	case shared.OptionString, shared.OptionNumber:
		return map[string]any{"type": string(t)}
	}
	return map[string]any{} // of a newer release: anything
}
