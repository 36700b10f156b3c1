package docker

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// options are the engine's own options, checked. The zero value of each field
// is its default.
type options struct {
	image, dockerfile, inline string
	compose, service          string

	pull         string // "missing", "always", "never"
	platform     platform
	user         string
	capAdd       []string
	reuse        bool
	writableRoot bool

	memory uint64
	cpus   float64
	pids   uint64

	cache cacheOptions
}

type cacheOptions struct {
	paths   []string
	perUser bool
	ttl     time.Duration
}

// platform is an image's, empty for the daemon's own.
type platform struct{ os, arch, variant string }

func optionError(name, format string, args ...any) *shared.Error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config." + name, Message: fmt.Sprintf(format, args...)}
}

// parseOptions decodes what a definition's config block holds.
func parseOptions(raw json.RawMessage) (*options, error) {
	o := &options{pull: "missing", cache: cacheOptions{ttl: 720 * time.Hour}}
	values, err := object("", raw)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := o.set(name, values[name]); err != nil {
			return nil, err
		}
	}
	return o, o.check()
}

// object decodes a JSON object without the members that are null, which stands
// for the default.
func object(name string, raw json.RawMessage) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: strings.TrimSuffix("config."+name, "."), Message: "must be an object"}
	}
	maps.DeleteFunc(values, func(_ string, v json.RawMessage) bool { return string(v) == "null" })
	return values, nil
}

func decode[T any](name string, raw json.RawMessage, to *T, what string) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return optionError(name, "must be %s", what)
	}
	return nil
}

func (o *options) set(name string, raw json.RawMessage) error {
	text := func(to *string) error {
		if err := decode(name, raw, to, "a string"); err != nil {
			return err
		}
		if *to == "" || strings.IndexByte(*to, 0) >= 0 {
			return optionError(name, "%q is no value; leave it out instead", *to)
		}
		return nil
	}
	switch name {
	case "image":
		return text(&o.image)
	case "dockerfile":
		return text(&o.dockerfile)
	case "dockerfile_inline":
		return text(&o.inline)
	case "compose":
		return text(&o.compose)
	case "service":
		return text(&o.service)
	case "user":
		return text(&o.user)
	case "pull":
		if err := text(&o.pull); err != nil {
			return err
		}
		if !slices.Contains([]string{"missing", "always", "never"}, o.pull) {
			return optionError(name, `%q is none of "missing", "always" and "never"`, o.pull)
		}
	case "platform":
		var s string
		if err := text(&s); err != nil {
			return err
		}
		return o.setPlatform(s)
	case "cap_add":
		if err := decode(name, raw, &o.capAdd, "a list of strings"); err != nil {
			return err
		}
		return o.checkCapabilities()
	case "reuse":
		return decode(name, raw, &o.reuse, "true or false")
	case "writable_root":
		return decode(name, raw, &o.writableRoot, "true or false")
	case "resources":
		return o.setBlock(name, raw, o.setResource)
	case "cache":
		return o.setBlock(name, raw, o.setCache)
	default:
		return optionError(name, "engine docker has no such option")
	}
	return nil
}

func (o *options) setBlock(block string, raw json.RawMessage, set func(name string, raw json.RawMessage) error) error {
	values, err := object(block, raw)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := set(block+"."+name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) setPlatform(s string) error {
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") || parts[0] != "linux" {
		return optionError("platform", `%q is not of the form "linux/arm64" or "linux/arm/v7"`, s)
	}
	o.platform = platform{os: parts[0], arch: parts[1]}
	if len(parts) == 3 {
		o.platform.variant = parts[2]
	}
	return nil
}

// checkCapabilities refuses those with which a container is none: they undo the
// rest of what this engine sets up.
func (o *options) checkCapabilities() error {
	form := regexp.MustCompile(`^[A-Z][A-Z_]*$`)
	for i, c := range o.capAdd {
		name := fmt.Sprintf("cap_add[%d]", i)
		short := strings.TrimPrefix(strings.ToUpper(c), "CAP_")
		if !form.MatchString(short) {
			return optionError(name, "%q is not the name of a capability", c)
		}
		switch short {
		case "ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "SYS_PTRACE", "DAC_READ_SEARCH", "BPF", "SYS_BOOT", "MAC_ADMIN", "MAC_OVERRIDE":
			e := optionError(name, "%s would let a command leave the container", short)
			e.Kind = shared.ErrDenied
			e.Hint = "name the capability that the command really needs"
			return e
		}
		o.capAdd[i] = "CAP_" + short
	}
	return nil
}

func (o *options) setResource(name string, raw json.RawMessage) error {
	switch name {
	case "resources.memory":
		var s string
		if err := decode(name, raw, &s, `a string such as "512MiB"`); err != nil {
			return err
		}
		n, err := parseSize(s)
		if err != nil {
			return optionError(name, "%v", err)
		}
		o.memory = n
	case "resources.cpu":
		if err := decode(name, raw, &o.cpus, "a number"); err != nil {
			return err
		}
		if !(o.cpus >= 0.01) || o.cpus > 1<<20 {
			return optionError(name, "%v is not a number of processors of 0.01 or more", o.cpus)
		}
	case "resources.pids":
		if err := decode(name, raw, &o.pids, "a whole number"); err != nil {
			return err
		}
		if o.pids < 1 {
			return optionError(name, "must be 1 or more")
		}
	default:
		return optionError(name, "engine docker has no such option")
	}
	return nil
}

func (o *options) setCache(name string, raw json.RawMessage) error {
	switch name {
	case "cache.paths":
		if err := decode(name, raw, &o.cache.paths, "a list of strings"); err != nil {
			return err
		}
		for i, p := range o.cache.paths {
			if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.IndexByte(p, 0) >= 0 {
				return optionError(fmt.Sprintf("%s[%d]", name, i), "%q is not an absolute path in its shortest form", p)
			}
			if slices.Contains(o.cache.paths[:i], p) {
				return optionError(fmt.Sprintf("%s[%d]", name, i), "%q is listed twice", p)
			}
		}
	case "cache.scope":
		var s string
		if err := decode(name, raw, &s, "a string"); err != nil {
			return err
		}
		if s != "project" && s != "user" {
			return optionError(name, `%q is neither "project" nor "user"`, s)
		}
		o.cache.perUser = s == "user"
	case "cache.ttl":
		var s string
		if err := decode(name, raw, &s, "a string"); err != nil {
			return err
		}
		d, err := time.ParseDuration(s)
		if err != nil || d <= 0 {
			return optionError(name, `%q is not a duration such as "720h"`, s)
		}
		o.cache.ttl = d
	default:
		return optionError(name, "engine docker has no such option")
	}
	return nil
}

// check holds the options against one another.
func (o *options) check() error {
	var given []string
	for _, source := range []struct{ name, value string }{
		{"image", o.image}, {"dockerfile", o.dockerfile}, {"dockerfile_inline", o.inline}, {"compose", o.compose},
	} {
		if source.value != "" {
			given = append(given, source.name)
		}
	}
	switch {
	case len(given) == 0:
		e := optionError("image", "is missing: engine docker needs an image to run commands in")
		e.Hint = `add config { image = "..." }, or dockerfile, dockerfile_inline, or compose and service`
		return e
	case len(given) > 1:
		return optionError(given[1], "%s and %s exclude one another", given[0], given[1])
	case o.compose != "" && o.service == "":
		return optionError("service", "is missing: compose needs the name of the service as which commands run")
	case o.compose == "" && o.service != "":
		return optionError("service", "is of no use without compose")
	}
	return nil
}

// lasts reports whether one container serves a definition for all of a named
// session. Root's, for commands of another user, does not: that user could swap
// what is in the session's directory. Nor one beside services of Compose's, which
// end with the sandbox.
func lasts(spec *shared.Spec, o *options) bool {
	return o.reuse && spec.Session.Named && spec.Session.Dir != "" && spec.User == nil && o.compose == ""
}

// parseSize reads a number of bytes: "1073741824", "512m", "1.5GiB". Units are
// powers of 1024, as Docker has them.
func parseSize(s string) (uint64, error) {
	digits := strings.TrimRight(s, "bBiIkKmMgGtT ")
	unit := strings.ToLower(strings.TrimSpace(s[len(digits):]))
	factors := map[string]float64{"": 1, "b": 1}
	for i, prefix := range []string{"k", "m", "g", "t"} {
		f := math.Pow(1024, float64(i+1))
		factors[prefix], factors[prefix+"b"], factors[prefix+"ib"] = f, f, f
	}
	factor, known := factors[unit]
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !known || !(n > 0) || n*factor >= 1<<62 || strings.ContainsAny(digits, "eExXpP_nN") {
		return 0, fmt.Errorf("%q is not a size such as \"512MiB\"", s)
	}
	return uint64(n * factor), nil
}

// limits are the definition's limits and the engine's own in one.
func (o *options) limits(spec *shared.Spec) (shared.Limits, error) {
	l := spec.Limits
	if o.memory != 0 && l.Memory != 0 && o.memory != l.Memory {
		return l, optionError("resources.memory", "is %d bytes, and limits.memory is %d; leave one of them out", o.memory, l.Memory)
	}
	if o.cpus != 0 && l.CPUs != 0 && o.cpus != l.CPUs {
		return l, optionError("resources.cpu", "is %v, and limits.cpus is %v; leave one of them out", o.cpus, l.CPUs)
	}
	if o.pids != 0 && l.PIDs != 0 && o.pids != l.PIDs {
		return l, optionError("resources.pids", "is %d, and limits.pids is %d; leave one of them out", o.pids, l.PIDs)
	}
	l.Memory, l.CPUs, l.PIDs = max(l.Memory, o.memory), max(l.CPUs, o.cpus), max(l.PIDs, o.pids)
	return l, nil
}
