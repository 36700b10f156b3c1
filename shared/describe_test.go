package shared

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

var everyOption = Info{
	Name: "mine", Version: "1.2.3", Doc: "does things", Features: Features{FeatureNetworkNone},
	Options: OptionSchema{
		Attributes: []OptionAttribute{
			{Name: "text", Type: OptionString, Doc: "a text", Required: true},
			{Name: "yes", Type: OptionBool, Default: json.RawMessage("true")},
			{Name: "n", Type: OptionNumber},
			{Name: "list", Type: OptionStringList, Default: json.RawMessage(`["a"]`)},
			{Name: "map", Type: OptionStringMap},
			{Name: "later", Type: "of a later release"},
		},
	},
}

// infoEngine is asked for nothing but its Info.
type infoEngine struct {
	Engine
	info Info
}

func (e infoEngine) Info(context.Context) (Info, error) { return e.info, nil }

// Without a host an engine describes itself, and says when that did not get
// through.
func TestIntroduce(t *testing.T) {
	t.Parallel()
	engine := infoEngine{info: everyOption}
	for _, c := range []struct {
		args           string
		status         int
		stdout, stderr string
	}{
		{"describe", 0, `"protocol": 2,`, ""},
		{"--describe", 0, `"type": "list(string)",`, ""},
		{"-version", 0, "mine 1.2.3\n", ""},
		{"", 1, "", "It is started by a program"},
		{"describe more", 1, "", "Try the argument describe"},
	} {
		var stdout, stderr strings.Builder
		status := introduce(engine, append([]string{"engine"}, strings.Fields(c.args)...), &stdout, &stderr)
		if status != c.status || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) || (c.stdout == "") != (stdout.Len() == 0) {
			t.Errorf("%q: status %d, %s%s", c.args, status, stdout.String(), stderr.String())
		}
	}
	var stderr strings.Builder
	for _, arg := range []string{"describe", "-version"} {
		if status := introduce(engine, []string{"engine", arg}, full{}, &stderr); status == 0 || !strings.Contains(stderr.String(), "no room") {
			t.Errorf("%s: status %d, %s", arg, status, stderr.String())
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no room") }
