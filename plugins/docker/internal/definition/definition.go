// Package definition checks the config block of a definition for the docker engine.
package definition

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/shared"
)

// Options are the checked config block of a definition, with defaults.
type Options struct {
	Image        string   `json:"image"`
	Pull         string   `json:"pull"`     // "missing", "always", "never"
	Platform     string   `json:"platform"` // "" means the daemon's own
	User         string   `json:"user"`
	CapAdd       []string `json:"cap_add"`
	WritableRoot bool     `json:"writable_root"`

	ImagePlatform *ocispec.Platform
}

func invalid(name, format string, args ...any) *shared.Error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config." + name, Message: fmt.Sprintf(format, args...)}
}

// Parse decodes a definition's config block. cmdengine has checked the names of its options, and
// sbxhost their types.
func Parse(raw json.RawMessage) (*Options, error) {
	o := &Options{Pull: "missing"}
	if len(raw) > 0 {
		err := json.Unmarshal(raw, o)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
			return nil, invalid(wrong.Field, "a JSON %s does not fit there", wrong.Value)
		}
		if err != nil {
			return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config", Message: "must be an object"}
		}
	}
	if o.Image == "" {
		e := invalid("image", "is missing: engine docker needs an image to run commands in")
		e.Hint = `add config { image = "..." }`
		return nil, e
	}
	if !slices.Contains([]string{"missing", "always", "never"}, o.Pull) {
		return nil, invalid("pull", `%q is not "missing", "always" or "never"`, o.Pull)
	}
	if err := cmp.Or(o.setPlatform(), o.checkCapabilities()); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *Options) setPlatform() error {
	if o.Platform == "" {
		return nil
	}
	parts := strings.Split(o.Platform, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") || parts[0] != "linux" {
		return invalid("platform", `%q is not of the form "linux/arm64" or "linux/arm/v7"`, o.Platform)
	}
	o.ImagePlatform = &ocispec.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		o.ImagePlatform.Variant = parts[2]
	}
	return nil
}

// checkCapabilities refuses capabilities that undo the container's isolation.
func (o *Options) checkCapabilities() error {
	form := regexp.MustCompile(`^[A-Z][A-Z_]*$`)
	for i, c := range o.CapAdd {
		name := fmt.Sprintf("cap_add[%d]", i)
		short := strings.TrimPrefix(strings.ToUpper(c), "CAP_")
		if !form.MatchString(short) {
			return invalid(name, "%q is not the name of a capability", c)
		}
		switch short {
		case "ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "DAC_READ_SEARCH", "BPF", "SYS_BOOT", "MAC_ADMIN", "MAC_OVERRIDE",
			"SETFCAP": // for a program in the workspace, which somebody executes outside
			e := invalid(name, "%s would let a command leave the container", short)
			e.Kind = shared.ErrDenied
			e.Hint = "name the capability that the command really needs"
			return e
		}
		o.CapAdd[i] = "CAP_" + short
	}
	return nil
}

const Version = "0.1.0-dev"
