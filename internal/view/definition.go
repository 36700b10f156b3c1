package view

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// Definition is one sandbox as its author wrote it: paths may be relative to
// the workspace or begin with "~/", and what is left out has the documented
// default. It maps one to one to a `sandbox` block of a configuration file.
// The zero value isolates with the platform's engine: no network, nothing of
// the host but the curated operating system files and the workspace.
type Definition struct {
	// Engine is "auto" (also ""), a built-in engine's name, or that of an
	// entry in Options.Engines or Options.Inject.
	Engine string
	// Fallback says what happens when the engine cannot run here. Empty means
	// approve for auto and deny for a named engine.
	Fallback Fallback
	// Isolation says what becomes of a part of the isolation that the engine cannot
	// hold; empty means full.
	Isolation Isolation
	// Network is what the command can reach; the zero value is nothing.
	Network Network
	// HostPorts are TCP ports of the host's loopback that the command finds on its own.
	HostPorts []uint16
	// Publish are TCP ports of the command's loopback on which the host listens, as
	// "3000", "8080:80" (the host's first) or "192.0.2.1:8080:80". An address that is not
	// written out is 127.0.0.1.
	Publish []string
	// Filesystem is what lies beneath; empty means minimal.
	Filesystem Filesystem
	// ReadOnly makes the workspace itself read-only.
	ReadOnly bool
	// Review names the review that takes what commands write to the workspace: see
	// Host.OpenReview. NewReview makes one for each command; empty, they write to the workspace.
	Review string
	// Workdir is where the workspace lies inside: "host" (also "") for its own
	// path, or an absolute path such as "/workspace".
	Workdir string
	// BindPaths are further host paths to show.
	BindPaths []Bind
	// DenyPaths are paths and patterns that are hidden, as package glob has them:
	// absolute, beginning with "~/", or relative to the workspace's root - and
	// where they begin with "**/", to all that is shown. A path without wildcards
	// that does not exist cannot be created. They win over everything else.
	DenyPaths []string
	// ProtectPaths are paths and patterns, likewise, that cannot be written.
	ProtectPaths []string
	// ProtectPathsExcept are names among DefaultProtected that may be written.
	ProtectPathsExcept []string
	// Git says whether what git obeys can be written; empty means protected.
	Git Git
	// UnixSockets are socket files that commands may connect to. All others in
	// what is shown are hidden. One that nothing else shows is shown at its path.
	UnixSockets []string
	// Devices are device nodes in /dev that commands may use, of those that do no harm to others:
	// see docs/configuration.md.
	Devices []string
	// EnvPassthrough are names and globs of variables to pass on.
	EnvPassthrough []string
	// EnvUnset are names of variables that commands do not have, whoever has set or passed them.
	EnvUnset []string
	// Env are variables to set, the only way to set one that is on the
	// denylist of variables that inject code.
	Env map[string]string
	// Credentials are names of credential sets that commands can use. Of each they get a
	// placeholder, in whose place the credential is put into requests to its own hosts, outside;
	// Network must then be a list. They get an agent's socket, and a set that says Pass.
	Credentials []string
	// Session says what commands share besides files.
	Session SessionDefinition
	// Limits bound each command, or all that runs in a session with Processes.
	Limits Limits
	// Config is a JSON object of the engine's own options; nil means none. With
	// the engine "auto" they are those of docker, where that is declared, and
	// the platform's engine has its defaults.
	Config json.RawMessage
}

// Network is what a command can reach beyond its own loopback. The zero value is nothing.
type Network struct {
	// Host gives the command the host's network, all of it.
	Host bool
	// Names are rules of what can be reached, and nothing else can: "registry.npmjs.org",
	// "*.github.com" (its subdomains, not the name itself), "db.example.com:5432", and
	// "!admin.github.com" for one that others allow. Without ports a rule is for 80 and 443. See egress.ParseRule.
	Names []string
}

// String is as a definition has it.
func (n Network) String() string {
	if n.Names != nil {
		return "[" + strings.Join(n.Names, ", ") + "]"
	}
	return strconv.FormatBool(n.Host)
}

// Bind shows a host path inside. The zero value of its booleans is the strict
// one: read-only, and an error when the path is missing.
type Bind struct {
	Host      string
	Container string // absolute path inside; empty means Host's resolved path
	Writable  bool
	Optional  bool // a missing Host is skipped
}

// Limits bound each command; zero means unlimited.
type Limits struct {
	Timeout   time.Duration
	Grace     time.Duration // between SIGTERM and the kill; zero means DefaultGrace
	Memory    uint64        // bytes
	CPUs      float64       // processors' worth of time
	PIDs      uint64
	OpenFiles uint64 // a process
	TempSize  uint64 // bytes; see SessionOptions for what lasts
	// Enforce says what becomes of a limit that nothing here can hold; empty means required.
	Enforce Enforce
}

// SessionDefinition is what the commands of a definition share. The zero value is nothing but files.
type SessionDefinition struct {
	// Processes makes the session's commands one machine: they share processes, the loopback and
	// /tmp, and what one of them leaves running goes on when it has ended. It ends with the Host, or
	// when no command has come for Idle. Commands of one definition at a time can have that
	// in a session.
	Processes bool
	// Idle is how long processes may run without a command; zero means DefaultIdle.
	Idle time.Duration
}

// DefaultIdle is how long what commands have left running goes on without another command.
const DefaultIdle = time.Hour

// Differs gives the first attribute in which two definitions are not the same, or "".
func (d *Definition) Differs(other *Definition) string {
	a, b := reflect.ValueOf(*d), reflect.ValueOf(*other)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			return attributeOf(a.Type().Field(i).Name)
		}
	}
	return ""
}

// attributeOf spells a field as a definition does: "BindPaths" is bind_paths.
func attributeOf(field string) string {
	var b strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// NewReview is the Review of a definition whose commands have one each.
const NewReview = "new"

// Spec is the limits of a Spec. The times are the command's.
func (l *Limits) Spec() shared.Limits {
	return shared.Limits{Memory: l.Memory, CPUs: l.CPUs, PIDs: l.PIDs, OpenFiles: l.OpenFiles, TempSize: l.TempSize, BestEffort: l.Enforce == EnforceBestEffort}
}

// What these attributes can say.
type (
	Fallback   string
	Isolation  string
	Filesystem string
	Git        string
	Enforce    string
)

const (
	FallbackDeny    Fallback = "deny"    // nothing runs
	FallbackApprove Fallback = "approve" // a person may approve a run without the sandbox

	IsolationFull       Isolation = "full"        // the command is refused
	IsolationBestEffort Isolation = "best_effort" // it runs, and the Report says what was not held

	FilesystemMinimal Filesystem = "minimal" // a curated operating system; see shared.Filesystem
	FilesystemHost    Filesystem = "host"    // all of the host's files, read-only

	GitProtected Git = "protected" // not the hooks, the configuration and the like
	// GitFull gives that up: a Report lists the hooks, and the settings that run commands, which
	// have changed. Worktrees elsewhere are protected all the same.
	GitFull Git = "full"

	EnforceRequired   Enforce = "required"    // the command is refused
	EnforceBestEffort Enforce = "best_effort" // it runs, and the Report says what was not held
)

// Validate reports, by its attribute, what means nothing on any machine. A Host is not made
// with such a definition.
func (d *Definition) Validate() error {
	l := &d.Limits
	for _, limit := range []struct {
		attribute string
		negative  bool
	}{{"timeout", l.Timeout < 0}, {"grace", l.Grace < 0}, {"cpus", !(l.CPUs >= 0)}} {
		if limit.negative {
			return Invalid("limits."+limit.attribute, "it is negative", "leave it out for none")
		}
	}
	if d.Session.Idle < 0 {
		return Invalid("session.idle", "it is negative", "leave it out for one hour")
	}
	if d.Session.Processes && d.Review == NewReview {
		return Invalid("session.processes", "each command has a review of its own, and would have processes of its own", "name one review for all of them, or leave one of the two out")
	}
	if err := d.validateNetwork(); err != nil {
		return err
	}
	return cmp.Or(oneOf("fallback", d.Fallback, FallbackDeny, FallbackApprove), oneOf("isolation", d.Isolation, IsolationFull, IsolationBestEffort), oneOf("filesystem", d.Filesystem, FilesystemMinimal, FilesystemHost),
		oneOf("git", d.Git, GitProtected, GitFull), oneOf("limits.enforce", l.Enforce, EnforceRequired, EnforceBestEffort))
}

func (d *Definition) validateNetwork() error {
	if d.Network.Host && d.Network.Names != nil {
		return Invalid("network", "it is the host's network, and a list of names, too", "use one of the two")
	}
	var rules egress.Rules
	for i, text := range d.Network.Names {
		rule, err := egress.ParseRule(text)
		if err != nil {
			return Invalid(fmt.Sprintf("network[%d]", i), err.Error(), "")
		}
		rules = append(rules, rule)
	}
	if i := rules.Idle(); i >= 0 {
		return invalidf(fmt.Sprintf("network[%d]", i), "leave it out, or write the name as another rule allows it", "%q denies what no rule of the list allows", d.Network.Names[i])
	}
	for i, port := range d.HostPorts {
		if port == 0 {
			return Invalid(fmt.Sprintf("host_ports[%d]", i), "0 is no port", "")
		}
	}
	for i, text := range d.Publish {
		if _, err := egress.ParsePublish(text); err != nil {
			return Invalid(fmt.Sprintf("publish[%d]", i), err.Error(), "")
		}
	}
	return nil
}

// SpecNetwork is the network of a Spec. The notes are what there is no need for.
func (d *Definition) SpecNetwork() (n shared.Network, notes []string) {
	switch {
	case d.Network.Host:
		if len(d.Publish) > 0 {
			notes = append(notes, "publish: with the host's network there is nothing to publish, the command listens there itself")
		}
		return shared.Network{Mode: shared.NetworkHost}, notes
	case d.Network.Names != nil:
		n.Mode, n.Names = shared.NetworkNames, d.Network.Names
	}
	n.HostPorts, n.Publish = d.HostPorts, d.Publish
	return n, nil
}

func oneOf[S ~string](attribute string, value S, known ...S) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return Invalid(attribute, fmt.Sprintf("unknown value %q", value), fmt.Sprintf("use %q or %q", known[0], known[1]))
}

// DefaultGrace is how long a command that is timed out or cancelled has to
// act on SIGTERM.
const DefaultGrace = 5 * time.Second

// The credential sets that a definition can name.
const (
	// CredentialGitHub passes GITHUB_TOKEN and GH_TOKEN as they are set, and
	// has git authenticate by it over https, to GitHub alone.
	CredentialGitHub = "github"
	// CredentialGitHubCLI is CredentialGitHub, with the token that `gh auth
	// token` gives where neither variable is set.
	CredentialGitHubCLI = "github-cli"
	// CredentialSSHAgent shows the socket of SSH_AUTH_SOCK, and no key: what a
	// command can do with it is to sign while it runs.
	CredentialSSHAgent = "ssh-agent"
)

// Credentials lists the names of the credential sets.
func Credentials() []string {
	return []string{CredentialGitHub, CredentialGitHubCLI, CredentialSSHAgent}
}

// ImplicitName is what a definition is called that has no name. Nothing of it tells the values of
// variables or of the engine's options, which may be secret.
func (d Definition) ImplicitName() string {
	d.Config = nil
	d.Env = maps.Clone(d.Env)
	for name := range d.Env {
		d.Env[name] = ""
	}
	text, _ := json.Marshal(d) // where that fails, a Host says so
	sum := sha256.Sum256(text)
	return "definition-" + hex.EncodeToString(sum[:6])
}

// Unheld tells of each attribute that an engine without isolation does nothing for.
func (d *Definition) Unheld(engine string) (notes []string) {
	for _, p := range []struct {
		text  string
		asked bool
	}{
		{"network = " + d.Network.String(), !d.Network.Host}, {"read_only", d.ReadOnly}, {"deny_paths", len(d.DenyPaths) > 0}, {"protect_paths", len(d.ProtectPaths) > 0},
	} {
		switch {
		case p.asked && engine == "noop":
			notes = append(notes, fmt.Sprintf("%s is not held: engine %q does not isolate commands", p.text, engine))
		case p.asked: // it may hold it
			notes = append(notes, fmt.Sprintf("%s is not promised: engine %q claims no isolation", p.text, engine))
		}
	}
	return notes
}

// BlameCommand has an error name the field of the command that it comes of, where a definition
// has binds of its own first.
func BlameCommand(err error, d *Definition, own int) error {
	e, ok := errors.AsType[*shared.Error](err)
	if !ok || len(d.BindPaths) == own {
		return err
	}
	number, rest, _ := strings.Cut(strings.TrimPrefix(e.Attribute, "bind_paths["), "]")
	if i, atoi := strconv.Atoi(number); atoi == nil && i >= own {
		e.Attribute = fmt.Sprintf("BindPaths[%d]%s", i-own, rest)
	}
	return err
}
