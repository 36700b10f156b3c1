package engines

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

var everyOption = shared.OptionSchema{
	Attributes: []shared.OptionAttribute{
		{Name: "text", Type: shared.OptionString, Doc: "a text", Required: true},
		{Name: "yes", Type: shared.OptionBool, Default: json.RawMessage("true")},
		{Name: "n", Type: shared.OptionNumber},
		{Name: "list", Type: shared.OptionStringList, Default: json.RawMessage(`["a"]`)},
		{Name: "map", Type: shared.OptionStringMap},
		{Name: "later", Type: "of a later release"},
	},
	Blocks: []shared.OptionBlock{{Name: "part", Doc: "a part", Attributes: []shared.OptionAttribute{{Name: "path", Type: shared.OptionString, Required: true}}}},
}

func TestJSONSchema(t *testing.T) {
	t.Parallel()
	const want = `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "additionalProperties": false,
  "properties": {
    "later": {},
    "list": {
      "default": [
        "a"
      ],
      "items": {
        "type": "string"
      },
      "type": "array"
    },
    "map": {
      "additionalProperties": {
        "type": "string"
      },
      "type": "object"
    },
    "n": {
      "type": "number"
    },
    "part": {
      "additionalProperties": false,
      "description": "a part",
      "properties": {
        "path": {
          "type": "string"
        }
      },
      "required": [
        "path"
      ],
      "type": "object"
    },
    "text": {
      "description": "a text",
      "type": "string"
    },
    "yes": {
      "default": true,
      "type": "boolean"
    }
  },
  "required": [
    "text"
  ],
  "title": "options",
  "type": "object"
}`
	got, err := jsonSchema(everyOption, "options")
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	empty, err := jsonSchema(shared.OptionSchema{}, "none")
	if err != nil || !strings.Contains(string(empty), `"additionalProperties": false`) || strings.Contains(string(empty), "required") {
		t.Errorf("%v\n%s", err, empty)
	}
}
