package docker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/shared"
)

// options are the engine's own options, checked. The zero value of each field
// is its default.
type options struct {
	image, dockerfile, inline string
	compose, service          string

	pull         string            // "missing", "always", "never"
	platform     *ocispec.Platform // nil for the daemon's own
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

func optionError(name, format string, args ...any) *shared.Error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config." + name, Message: fmt.Sprintf(format, args...)}
}

// optionsJSON is the config block as it comes, and what stands in it.
type optionsJSON struct {
	Image        *string         `json:"image"`
	Dockerfile   *string         `json:"dockerfile"`
	Inline       *string         `json:"dockerfile_inline"`
	Compose      *string         `json:"compose"`
	Service      *string         `json:"service"`
	Pull         *string         `json:"pull"`
	Platform     *string         `json:"platform"`
	User         *string         `json:"user"`
	CapAdd       []string        `json:"cap_add"`
	Reuse        bool            `json:"reuse"`
	WritableRoot bool            `json:"writable_root"`
	Resources    json.RawMessage `json:"resources"`
	Cache        json.RawMessage `json:"cache"`
}

// parseOptions decodes what a definition's config block holds.
func parseOptions(raw json.RawMessage) (*options, error) {
	var given optionsJSON
	if err := decode("", raw, &given); err != nil {
		return nil, err
	}
	o := &options{pull: "missing", capAdd: given.CapAdd, reuse: given.Reuse, writableRoot: given.WritableRoot, cache: cacheOptions{ttl: 720 * time.Hour}}
	var at string
	for _, text := range []struct {
		name  string
		given *string
		to    *string
	}{
		{"image", given.Image, &o.image}, {"dockerfile", given.Dockerfile, &o.dockerfile}, {"dockerfile_inline", given.Inline, &o.inline},
		{"compose", given.Compose, &o.compose}, {"service", given.Service, &o.service}, {"pull", given.Pull, &o.pull},
		{"platform", given.Platform, &at}, {"user", given.User, &o.user},
	} {
		if text.given == nil {
			continue
		}
		if *text.to = *text.given; *text.to == "" || strings.IndexByte(*text.to, 0) >= 0 {
			return nil, optionError(text.name, "%q is no value; leave it out instead", *text.to)
		}
	}
	if !slices.Contains([]string{"missing", "always", "never"}, o.pull) {
		return nil, optionError("pull", `%q is none of "missing", "always" and "never"`, o.pull)
	}
	for _, check := range []func() error{
		func() error { return o.setPlatform(at) }, o.checkCapabilities,
		func() error { return o.setResources(given.Resources) }, func() error { return o.setCache(given.Cache) },
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return o, o.check()
}

// decode reads a block, and names the option that cannot be read. Null stands for
// the default.
func decode(block string, raw json.RawMessage, to any) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(to)
	if err == nil {
		return nil
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return optionError(block+wrong.Field, "is a %s, and must be a %s", wrong.Value, kinds[wrong.Type.Kind()])
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return optionError(block+strings.Trim(name, `"`), "engine docker has no such option")
	}
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: strings.TrimSuffix("config."+block, "."), Message: "must be an object"}
}

// kinds are what JSON calls the types of options.
var kinds = map[reflect.Kind]string{
	reflect.String: "string", reflect.Bool: "bool, true or false", reflect.Slice: "list of strings", reflect.Float64: "number", reflect.Uint64: "whole number",
}

func (o *options) setPlatform(s string) error {
	if s == "" {
		return nil
	}
	parts := strings.Split(s, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") || parts[0] != "linux" {
		return optionError("platform", `%q is not of the form "linux/arm64" or "linux/arm/v7"`, s)
	}
	o.platform = &ocispec.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		o.platform.Variant = parts[2]
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

func (o *options) setResources(raw json.RawMessage) (err error) {
	var given struct {
		Memory *string  `json:"memory"`
		CPU    *float64 `json:"cpu"`
		PIDs   *uint64  `json:"pids"`
	}
	if err := decode("resources.", raw, &given); err != nil {
		return err
	}
	if given.Memory != nil {
		if o.memory, err = parseSize(*given.Memory); err != nil {
			return optionError("resources.memory", "%v", err)
		}
	}
	if given.CPU != nil {
		if o.cpus = *given.CPU; !(o.cpus >= 0.01) || o.cpus > 1<<20 {
			return optionError("resources.cpu", "%v is not a number of processors of 0.01 or more", o.cpus)
		}
	}
	if given.PIDs != nil {
		if o.pids = *given.PIDs; o.pids < 1 {
			return optionError("resources.pids", "must be 1 or more")
		}
	}
	return nil
}

func (o *options) setCache(raw json.RawMessage) (err error) {
	var given struct {
		Paths []string `json:"paths"`
		Scope *string  `json:"scope"`
		TTL   *string  `json:"ttl"`
	}
	if err := decode("cache.", raw, &given); err != nil {
		return err
	}
	for i, p := range given.Paths {
		name := fmt.Sprintf("cache.paths[%d]", i)
		if !path.IsAbs(p) || path.Clean(p) != p || p == "/" || strings.IndexByte(p, 0) >= 0 {
			return optionError(name, "%q is not an absolute path in its shortest form", p)
		}
		if slices.Contains(given.Paths[:i], p) {
			return optionError(name, "%q is listed twice", p)
		}
	}
	o.cache.paths = given.Paths
	if given.Scope != nil {
		if o.cache.perUser = *given.Scope == "user"; !o.cache.perUser && *given.Scope != "project" {
			return optionError("cache.scope", `%q is neither "project" nor "user"`, *given.Scope)
		}
	}
	if given.TTL != nil {
		if o.cache.ttl, err = time.ParseDuration(*given.TTL); err != nil || o.cache.ttl <= 0 {
			return optionError("cache.ttl", `%q is not a duration such as "720h"`, *given.TTL)
		}
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
