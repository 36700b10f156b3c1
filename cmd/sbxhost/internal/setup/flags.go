package setup

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Flags are the flags that exec and explain share: the sandbox, its changes for this command, and
// the command.
type Flags struct {
	Sandbox string
	Config  string
	env     []string
	Workdir string

	script string
	// ScriptFile is the file of -c's script; empty if sbxhost can read it only once.
	ScriptFile string
	Served     bool // the flags come from a client: to read a pipe of the client takes the script from it
	Scripted   bool // -c was given
	ByFile     bool // -c named a file
	Tty        bool
	network    *host.Network
	publish    []string
	readOnly   *bool
	Timeout    *time.Duration
	Session    string
	Keep       bool
	Review     string
	NoSandbox  bool
}

// Register registers the flags for a caller, in whose directory -c finds a script.
func (f *Flags) Register(a *cli.App, fs *flag.FlagSet) {
	fs.StringVar(&f.Sandbox, "sandbox", "", "")
	cli.NameVar(fs, &f.Config, "config", "file")
	fs.StringVar(&f.Workdir, "C", "", "")
	fs.StringVar(&f.Session, "session", "", "")
	cli.NameVar(fs, &f.Review, "review", "review")
	fs.BoolVar(&f.NoSandbox, "no-sandbox", false, "")
	fs.BoolVar(&f.Tty, "t", false, "")
	fs.Func("c", "", func(s string) error {
		f.script, f.ScriptFile, f.Scripted = s, "", true
		if name, ok := strings.CutPrefix(s, "@"); ok {
			f.ByFile, name = true, a.Absolute(name)
			if !strings.HasPrefix(name, "/dev/") && !strings.HasPrefix(name, "/proc/") {
				f.ScriptFile = name // readScript reads it
				return nil
			}
			if f.Served {
				return errors.New("only its client can read this file")
			}
			text, err := os.ReadFile(name) // such as a descriptor, which can be read only once
			f.script = string(text)
			return err
		}
		return nil
	})
	fs.Func("env", "", func(s string) error {
		f.env = append(f.env, s)
		return nil
	})
	// Not a boolean flag of package flag: `-network false curl` would turn the network on and run
	// `false curl`.
	fs.Func("network", "", func(s string) error {
		if s == "--" {
			return errors.New("it needs a value")
		}
		if v, err := strconv.ParseBool(s); err == nil {
			f.network = &host.Network{Host: v}
			return nil
		}
		names := ruleTexts(s)
		_, err := egress.ParseRules(names)
		if err == nil && !strings.ContainsAny(s, ".:") { // probably the command's: -network make
			err = fmt.Errorf("%q is a name without a dot: write it with its port, such as %s:443, if it is meant", s, s)
		}
		if err != nil {
			return fmt.Errorf("write -network=true, -network=false or names, such as -network=registry.npmjs.org,*.github.com: %w", err)
		}
		f.network = &host.Network{Names: names}
		return nil
	})
	fs.Func("publish", "", func(s string) error {
		_, err := egress.ParsePublish(s)
		if slices.Contains(f.publish, s) {
			err = errors.New("it is given twice")
		}
		f.publish = append(f.publish, s)
		return err
	})
	fs.BoolFunc("read-only", "", func(s string) error {
		v, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("write -read-only or -read-only=false")
		}
		f.readOnly = &v
		return nil
	})
	fs.Func("timeout", "", func(s string) error {
		v, err := time.ParseDuration(s)
		if err != nil || v <= 0 {
			return errors.New(`write a time above zero with its unit, such as "90s" or "2m"`)
		}
		f.Timeout = &v
		return nil
	})
}

// maxScript is more than any script has, in bytes.
const maxScript = 1 << 30

// readScript reads the file of -c, but not through a symlink that a command can have made: others in
// its session would see the text of any file.
func (f *Flags) readScript(writable func() []string) error {
	if f.ScriptFile == "" {
		return nil
	}
	at, err := hostpath.Resolve("/", f.ScriptFile, writable)
	var text []byte
	if err == nil {
		text, err = hostpath.ReadNoSymlinks(at, maxScript)
	}
	if err != nil {
		return fmt.Errorf("-c: %w", err)
	}
	f.script = string(text)
	return nil
}

// ruleTexts splits a list of rules at its commas, except between ports.
func ruleTexts(s string) (texts []string) {
	for text := range strings.SplitSeq(s, ",") {
		if _, err := strconv.ParseUint(text, 10, 64); err == nil && len(texts) > 0 {
			texts[len(texts)-1] += "," + text
			continue
		}
		texts = append(texts, text)
	}
	return texts
}

// networkVariables say how to reach the network, and which certificates programs trust.
var networkVariables = []string{
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO",
}

// apply changes a definition by the flags.
func (f *Flags) apply(d *host.Definition) {
	if f.network != nil {
		d.Network = *f.network
		if d.Network.Host { // it may be reachable only by a proxy
			d.EnvPassthrough = slices.Concat(d.EnvPassthrough, networkVariables)
		}
	}
	if f.publish != nil {
		d.Publish = f.publish
	}
	if f.readOnly != nil {
		d.ReadOnly = *f.readOnly
	}
	if f.Timeout != nil {
		d.Limits.Timeout = *f.Timeout
	}
	if f.Review != "" {
		d.Review = f.Review
	}
	if f.Keep {
		d.Session.Processes = true
	}
}

// Change returns the flag for a denial's proposal, in addition to its present value; "" for no
// proposal.
func (f *Flags) Change(d *host.Denial) string {
	name := f.FlagOf(d.Attribute)
	switch value, err := strconv.Unquote(d.Value); {
	case d.Value == "":
		return ""
	case d.Attribute == "network" && err == nil:
		names := []string{value}
		if f.network != nil {
			names = append(slices.Clone(f.network.Names), value)
		}
		return "-network=" + cli.ShellQuote(strings.Join(names, ","))
	default:
		return name + "=" + d.Value
	}
}

// FlagOf returns the flag that has set an attribute of the definition or of the command, or "" if
// the file did.
func (f *Flags) FlagOf(attribute string) string {
	name, _, _ := strings.Cut(attribute, "[") // of an element, that of its list
	for _, one := range []struct {
		attribute, flag string
		set             bool
	}{
		{"default_sandbox", "-sandbox", f.Sandbox != ""},
		{"network", "-network", f.network != nil},
		{"publish", "-publish", f.publish != nil},
		{"read_only", "-read-only", f.readOnly != nil},
		{"session.processes", "-keep", f.Keep},
		{"review", "-review", f.Review != ""},
		{"limits.timeout", "-timeout", f.Timeout != nil},
		{"Dir", "-C", true},
		{"TTY", "-t", true},
		{"Env", "-env", f.env != nil},
	} {
		if one.attribute == name && one.set {
			return one.flag
		}
	}
	return ""
}
