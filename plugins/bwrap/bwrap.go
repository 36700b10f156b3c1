package bwrap

import (
	"encoding/json"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
	"github.com/sbxhost/sbxhost/shared"
)

var info = shared.Info{
	Name:     "bwrap",
	Version:  "0.1.0-dev",
	Doc:      "Linux namespaces through bubblewrap: no daemon, no image, milliseconds a command",
	Features: nsengine.Features,
	Options: shared.OptionSchema{Attributes: append([]shared.OptionAttribute{{
		Name: "path", Type: shared.OptionString,
		Doc: "absolute path of the bwrap program; default: where distributions install it, never PATH",
	}}, nsengine.Options...)},
}

// parsePath reads the option "path"; empty means none.
func parsePath(options json.RawMessage) (string, error) {
	var path *string
	if err := nsengine.Option(options, "path", "a string", &path); err != nil || path == nil {
		return "", err
	}
	if !strings.HasPrefix(*path, "/") || strings.IndexByte(*path, 0) >= 0 {
		return "", mountplan.Invalid("config.path", "", "%q is not an absolute path", *path)
	}
	return *path, nil
}
