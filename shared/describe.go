package shared

import (
	"encoding/json"

	"github.com/sbxhost/sbxhost/shared/wire"
)

// infoJSON is the form in which an engine describes itself to programs.
type infoJSON struct {
	Name       string               `json:"name"`
	Version    string               `json:"version"`
	Protocol   uint                 `json:"protocol"`
	Doc        string               `json:"doc"`
	Features   Features             `json:"features"`
	Attributes []attributeJSON      `json:"attributes"`
	Blocks     map[string]blockJSON `json:"blocks"`
}

type attributeJSON struct {
	Name     string          `json:"name"`
	Type     OptionType      `json:"type"`
	Doc      string          `json:"doc"`
	Required bool            `json:"required"`
	Default  json.RawMessage `json:"default,omitempty"`
}

type blockJSON struct {
	Doc        string          `json:"doc"`
	Attributes []attributeJSON `json:"attributes"`
}

// MarshalJSON gives what `ENGINE describe` prints: an object with name,
// version, protocol, doc, features, and the options as attributes and blocks.
// Every list is there, if empty.
func (i Info) MarshalJSON() ([]byte, error) {
	out := infoJSON{
		Name: i.Name, Version: i.Version, Protocol: wire.Handshake.ProtocolVersion, Doc: i.Doc,
		Features: append(Features{}, i.Features...), Attributes: attributesJSON(i.Options.Attributes), Blocks: map[string]blockJSON{},
	}
	for _, b := range i.Options.Blocks {
		out.Blocks[b.Name] = blockJSON{b.Doc, attributesJSON(b.Attributes)}
	}
	return json.Marshal(out)
}

func attributesJSON(attrs []OptionAttribute) []attributeJSON {
	out := make([]attributeJSON, 0, len(attrs))
	for _, a := range attrs {
		out = append(out, attributeJSON(a))
	}
	return out
}

// JSONSchema describes the object that [Spec.Options] holds, and so a config
// block in its JSON form, as a JSON Schema of draft 2020-12.
func (s OptionSchema) JSONSchema(title string) ([]byte, error) {
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

func objectSchema(attrs []OptionAttribute) map[string]any {
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

func typeSchema(t OptionType) map[string]any {
	switch t {
	case OptionStringList:
		return map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	case OptionStringMap:
		return map[string]any{"type": "object", "additionalProperties": map[string]any{"type": "string"}}
	case OptionBool:
		return map[string]any{"type": "boolean"}
	case OptionString, OptionNumber:
		return map[string]any{"type": string(t)}
	}
	return map[string]any{} // of a newer release: anything
}
