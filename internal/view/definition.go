package view

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/shared"
)

// Definition is one sandbox as its author wrote it: paths may be relative to the workspace or begin
// with "~/", and empty fields have the documented default. It corresponds to a `sandbox` block of a
// configuration file. The zero value isolates with the platform's engine: no network, nothing of
// the host except the curated operating system files and the workspace.
type Definition struct {
	// Engine is "auto" (also ""), a built-in engine's name, or a name in Options.Engines or
	// Options.Inject.
	Engine string
	// Fallback decides what happens if the engine cannot run here. Empty means approve for auto,
	// and deny for a named engine.
	Fallback Fallback
	// Isolation decides what happens if the engine cannot enforce a part of the isolation; empty
	// means full.
	Isolation Isolation
	// Network is what the command can reach; the zero value is nothing.
	Network Network
	// HostPorts are TCP ports of the host's loopback that the command finds on its own loopback.
	HostPorts []uint16
	// Publish are TCP ports of the command's loopback on which the host listens: "3000", "8080:3000"
	// (the host's first) or "192.0.2.1:8080:3000". The default address is 127.0.0.1.
	Publish []string
	// Filesystem is the view beneath the workspace and binds; empty means minimal.
	Filesystem Filesystem
	// ReadOnly makes the workspace itself read-only.
	ReadOnly bool
	// Review names the review that receives what commands write to the workspace: see
	// Host.OpenReview. NewReview makes one for each command. Empty means that they write to the
	// workspace.
	Review string
	// Workdir is the workspace's path inside: "host" (also "") for its own path, or an absolute
	// path such as "/workspace".
	Workdir string
	// BindPaths are further host paths to show.
	BindPaths []Bind
	// DenyPaths are hidden paths and patterns, in the form of package glob: absolute, beginning
	// with "~/", relative to the workspace's root, or beginning with "**/" for everything that is
	// shown. Commands cannot create a missing path without wildcards. They override everything
	// else.
	DenyPaths []string
	// ProtectPaths are paths and patterns of the same form that commands cannot write.
	ProtectPaths []string
	// ProtectPathsExcept are names of DefaultProtected that commands may write.
	ProtectPathsExcept []string
	// Git decides whether commands can write what git obeys; empty means protected.
	Git Git
	// UnixSockets are socket files that commands may connect to. All others in visible directories
	// are hidden. A listed socket that is in no visible directory is shown at its path.
	UnixSockets []string
	// Devices are device nodes in /dev that commands may use, if they cannot harm others: see
	// docs/configuration.md.
	Devices []string
	// EnvPassthrough are names and globs of variables to pass on.
	EnvPassthrough []string
	// EnvUnset are names of variables that commands do not have, whatever sets or passes them.
	EnvUnset []string
	// Env are variables to set. Only Env can set a variable on the denylist of variables that
	// inject code.
	Env map[string]string
	// Credentials are names of credential sets that commands can use. They get a placeholder for
	// each. The host replaces it by the credential in requests to the set's hosts; Network must
	// then be a list. Commands get an agent's socket, and the variables of a set with Pass,
	// directly.
	Credentials []string
	// Session decides what commands share besides files.
	Session SessionDefinition
	// Limits bound each command, or all of a session with Processes.
	Limits Limits
	// Config is a JSON object of the engine's own options; nil means none. With the engine "auto"
	// they are docker's, if that is declared, and the platform's engine uses its defaults.
	Config json.RawMessage
}

// Network is what a command can reach beyond its own loopback. The zero value is nothing.
type Network struct {
	// Host gives the command all of the host's network.
	Host bool
	// Names are rules of what the command can reach, and nothing else: "registry.npmjs.org",
	// "*.github.com" (its subdomains, not the name itself), "db.example.com:5432", and
	// "!admin.github.com", an exception from other rules. Without ports a rule is for 80 and 443.
	// See egress.ParseRule.
	Names []string
}

// String returns the network as a definition has it.
func (n Network) String() string {
	if n.Names != nil {
		return "[" + strings.Join(n.Names, ", ") + "]"
	}
	return strconv.FormatBool(n.Host)
}

// Bind shows a host path inside. The zero value of its booleans is the stricter choice: read-only,
// and an error if the path is missing.
type Bind struct {
	Host      string
	Container string // absolute path inside; empty means Host's resolved path
	Writable  bool
	Optional  bool // skip a missing Host
}

// Limits bound each command; zero means unlimited.
type Limits struct {
	Timeout   time.Duration
	Grace     time.Duration // from SIGTERM to the kill; zero means DefaultGrace
	Memory    uint64        // bytes
	CPUs      float64       // processors' worth of time
	PIDs      uint64
	OpenFiles uint64 // in each process
	TempSize  uint64 // bytes; not for what a session keeps
	// Enforce decides what happens if nothing here can enforce a limit; empty means required.
	Enforce Enforce
}

// SessionDefinition decides what the commands of a definition share. The zero value shares only
// files.
type SessionDefinition struct {
	// Processes makes the session's commands share processes, the loopback and /tmp, as on one
	// machine. Processes that a command leaves running go on after its end, until the Host closes,
	// or no command has come for Idle. Only one definition at a time can use this in a session.
	Processes bool
	// Idle is how long processes may run without a command; zero means DefaultIdle.
	Idle time.Duration
}

// DefaultIdle is how long background processes go on without a command.
const DefaultIdle = time.Hour

// Differs returns the first attribute in which two definitions differ, or "".
func (d *Definition) Differs(other *Definition) string {
	a, b := reflect.ValueOf(*d), reflect.ValueOf(*other)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			// BindPaths is bind_paths.
			return strings.ToLower(regexp.MustCompile("([a-z])([A-Z])").ReplaceAllString(a.Type().Field(i).Name, "${1}_$2"))
		}
	}
	return ""
}

// NewReview is the Review of a definition whose commands each have their own.
const NewReview = "new"

type (
	// Fallback decides what happens if the engine cannot run here.
	Fallback string
	// Isolation decides what happens if the engine cannot enforce a part of the isolation.
	Isolation string
	// Filesystem is the view beneath the workspace and binds.
	Filesystem string
	// Git decides whether commands can write what git obeys.
	Git string
	// Enforce decides what happens if nothing here can enforce a limit.
	Enforce string
)

const (
	FallbackDeny    Fallback = "deny"    // nothing runs
	FallbackApprove Fallback = "approve" // a person may approve a run without the sandbox

	IsolationFull       Isolation = "full"        // refuse the command
	IsolationBestEffort Isolation = "best_effort" // run it, and report what is not enforced

	FilesystemMinimal Filesystem = "minimal" // a curated operating system; see shared.Filesystem
	FilesystemHost    Filesystem = "host"    // all of the host's files, read-only

	GitProtected Git = "protected" // protects hooks, configuration and the like
	// GitFull protects nothing of that: a Report lists the changed hooks and settings that run
	// commands. Worktrees elsewhere stay protected.
	GitFull Git = "full"

	EnforceRequired   Enforce = "required"    // refuse the command
	EnforceBestEffort Enforce = "best_effort" // run it, and report what is not enforced
)

// Validate reports, with its attribute, what is invalid on every machine. New refuses such a
// definition.
func (d *Definition) Validate() error {
	l := &d.Limits
	for _, limit := range []struct {
		attribute string
		negative  bool
	}{{"limits.timeout", l.Timeout < 0}, {"limits.grace", l.Grace < 0}, {"limits.cpus", !(l.CPUs >= 0)}, {"session.idle", d.Session.Idle < 0}} {
		if limit.negative {
			return Invalid(limit.attribute, "it is negative", "leave it out for the default")
		}
	}
	if d.Session.Processes && d.Review == NewReview {
		return Invalid("session.processes", "each command has a review of its own, and would have processes of its own", "name one review for all of them, or leave one of the two out")
	}
	return cmp.Or(d.validateNetwork(), oneOf("fallback", d.Fallback, FallbackDeny, FallbackApprove), oneOf("isolation", d.Isolation, IsolationFull, IsolationBestEffort), oneOf("filesystem", d.Filesystem, FilesystemMinimal, FilesystemHost),
		oneOf("git", d.Git, GitProtected, GitFull), oneOf("limits.enforce", l.Enforce, EnforceRequired, EnforceBestEffort))
}

func (d *Definition) validateNetwork() error {
	if d.Network.Host && d.Network.Names != nil {
		return Invalid("network", "it is both the host's network and a list of names", "use one of the two")
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
		return invalidf(fmt.Sprintf("network[%d]", i), "leave it out, or write the name as in the rule that allows it", "%q denies what no rule of the list allows", d.Network.Names[i])
	}
	for i, text := range d.Publish {
		if _, err := egress.ParsePublish(text); err != nil {
			return Invalid(fmt.Sprintf("publish[%d]", i), err.Error(), "")
		}
	}
	return nil
}

// SpecNetwork returns the network of a Spec. The host's needs no HostPorts and no Publish.
func SpecNetwork(d *Definition) shared.Network {
	if d.Network.Host {
		return shared.Network{Mode: shared.NetworkHost}
	}
	n := shared.Network{HostPorts: d.HostPorts, Publish: d.Publish}
	if d.Network.Names != nil {
		n.Mode, n.Names = shared.NetworkNames, d.Network.Names
	}
	return n
}

func oneOf[S ~string](attribute string, value S, known ...S) error {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return Invalid(attribute, fmt.Sprintf("unknown value %q", value), fmt.Sprintf("use %q or %q", known[0], known[1]))
}

// DefaultGrace is the time from SIGTERM to the kill of a command that timed out or was cancelled.
const DefaultGrace = 5 * time.Second

// The built-in credential sets.
const (
	// CredentialGitHub is GITHUB_TOKEN and GH_TOKEN. git uses it over https, only for GitHub.
	CredentialGitHub = "github"
	// CredentialGitHubCLI is CredentialGitHub with the token of `gh auth token` if neither variable
	// is set.
	CredentialGitHubCLI = "github-cli"
	// CredentialSSHAgent shows the socket of SSH_AUTH_SOCK, but no key: commands can sign with it
	// while they run.
	CredentialSSHAgent = "ssh-agent"
)

// Credentials lists the names of the credential sets.
func Credentials() []string {
	return []string{CredentialGitHub, CredentialGitHubCLI, CredentialSSHAgent}
}

// ImplicitName is the name of a definition without one. It reveals no values of variables or of the
// engine's options, which may be secret.
func ImplicitName(d Definition) string {
	d.Config = nil
	d.Env = maps.Clone(d.Env)
	for name := range d.Env {
		d.Env[name] = ""
	}
	text, _ := json.Marshal(d) // a Host reports errors
	sum := sha256.Sum256(text)
	return fmt.Sprintf("definition-%x", sum[:6])
}

// BlameCommand makes an error about a bind that the command added name the command's BindPaths. The
// first own binds are the definition's own.
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

// SizeText writes a number of bytes as a definition does: "512MiB". It returns "" for 0.
func SizeText(n uint64) string {
	if n == 0 {
		return ""
	}
	units := [...]string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := min(bits.TrailingZeros64(n)/10, len(units)-1)
	return strconv.FormatUint(n>>(10*i), 10) + units[i]
}
