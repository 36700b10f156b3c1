package shared

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Spec is the whole policy of one sandbox, resolved: every path is absolute
// and clean, nothing is left to the engine's defaults but the contents of the
// curated operating system view. The zero value isolates.
type Spec struct {
	// Sandbox is the definition's name, for messages.
	Sandbox string

	// Unconfined says that the command is to run without isolation. Only the
	// host's policy sets it. An engine that isolates refuses it; one that does
	// not isolate refuses a Spec without it.
	Unconfined bool

	// Filesystem chooses what lies beneath the Table.
	Filesystem Filesystem

	// Table says what lies over the base view: what is shown, protected and
	// hidden. The host gives it sorted, a directory before what lies in it; no
	// path is there twice.
	Table []Entry

	// BestEffort says that the engine may leave out what of the isolation it does not
	// claim: the host reports that, and refuses it of a Spec without. See Without.
	BestEffort bool

	// Home is the path of the command's home directory: private, writable and
	// empty but for what the Table has inside it. Empty means that there is none.
	Home string

	// Network is what the command can reach.
	Network Network

	// Limits bound what the command may use.
	Limits Limits

	// Session is the group of commands that share scratch space.
	Session Session

	// Prepare asks the engine to make an empty sandbox when a command has ended, and to
	// keep it for the next command, which then starts sooner. A process waits in it
	// meanwhile. Like every sandbox it serves one command. An engine may do without.
	Prepare bool

	// User is who the command runs as; nil means the engine's own user. An
	// engine process that is not root refuses any other.
	User *User

	// Devices are paths of character devices in /dev, which commands may use at the same paths
	// inside. The host has chosen among them.
	Devices []string

	// Options is a JSON object with the engine's own options, checked by the
	// host against the schema in [Info]. Empty means none.
	Options json.RawMessage
}

// Filesystem is the view that lies beneath a Spec's table.
type Filesystem int32

const (
	// FilesystemMinimal is a curated, read-only set of operating system files
	// (programs, libraries, the harmless part of /etc), a fresh /proc and
	// /dev, and an empty private /tmp; nothing else of the host.
	FilesystemMinimal Filesystem = iota
	// FilesystemHost is the host's tree, read-only, with a fresh /proc and
	// /dev and an empty private /tmp and /run over it.
	FilesystemHost
)

// String spells f as a definition does.
func (f Filesystem) String() string { return spell("filesystem", f, "minimal", "host") }

// spell gives the word for a value of a kind, of which words has those that there are.
func spell[T ~int32](kind string, value T, words ...string) string {
	if value < 0 || int(value) >= len(words) {
		return fmt.Sprintf("%s(%d)", kind, int32(value))
	}
	return words[value]
}

// Network is what a command can reach. The zero value is its own loopback
// alone.
type Network struct {
	// Mode says which network it is.
	Mode NetworkMode
	// Names are, with NetworkNames, the rules of what can be reached, in the form that
	// package egress reads: "registry.npmjs.org", "*.github.com:443". None reaches nothing.
	Names []string
	// HostPorts are TCP ports of the host's loopback that the command finds on its own
	// loopback. With NetworkHost there is nothing to do for them.
	HostPorts []uint16
	// Publish are TCP ports of the command's loopback that the host listens for, in the form
	// that package egress reads: "3000", "8080:80", "192.0.2.1:8080:80".
	Publish []string
	// Inject has credentials that requests get outside of the sandbox, with NetworkNames.
	// It is for [FeatureNetworkInject].
	Inject Injection
}

// An Injection says which requests get credentials that no command has. For their hosts the
// engine is a TLS server to commands, at port 443, and checks the hosts' own certificates.
type Injection struct {
	// Certificate is, as PEM, one for all Hosts, that of the authority which has issued it and
	// which the Table shows to commands, and the key of the first.
	Certificate Secret
	Credentials []Credential // none: no request gets any
}

// A Credential takes the place of Placeholder in a header of requests to Hosts, also where that
// is encoded as Basic authentication has it. Each request must be for the host that its
// connection is to.
type Credential struct {
	Hosts       []string // names that a rule of Network.Names lets commands reach at port 443
	Header      string   // its name, such as "Authorization"
	Placeholder string   // what commands have
	Value       Secret   // what goes out in its place
}

// A Secret is no part of what is logged or shown of it.
type Secret string

// String does not give it.
func (Secret) String() string { return "(secret)" }

// GoString does not, either.
func (Secret) GoString() string { return "(secret)" }

// MarshalText does not, either.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Gated reports whether connections are passed between the command's network and the host's.
func (n *Network) Gated() bool {
	return n.Mode != NetworkHost && (n.Mode == NetworkNames || len(n.HostPorts) > 0 || len(n.Publish) > 0)
}

// NetworkMode is the kind of network a sandbox has.
type NetworkMode int32

const (
	NetworkNone  NetworkMode = iota // loopback of its own, nothing else
	NetworkHost                     // the host's network
	NetworkNames                    // its own loopback, and what Network.Names lists
)

// String is for people.
func (m NetworkMode) String() string { return spell("network", m, "none", "host", "names") }

// Limits bound a command. Zero means no limit of that kind.
type Limits struct {
	Memory     uint64  // bytes
	CPUs       float64 // whole processors' worth of time
	PIDs       uint64  // processes and threads at once
	OpenFiles  uint64  // descriptors a process
	TempSize   uint64  // bytes in each private temporary file system
	BestEffort bool    // report what cannot be held, where false refuses it
}

// Session names the state that commands share. It belongs to the session, not
// to a Sandbox: two Specs may be in one session at once.
type Session struct {
	// ID is unique on this machine. Empty means that nothing is shared: each command has overlays of its own, too,
	// whose writes end with it.
	ID  string
	Dir string // absolute host path of the scratch directory; empty means that there is none
	// Named says that the session outlives who opens sandboxes in it, and ends
	// when Dir is removed.
	Named bool
	// Processes says that the commands of the session's sandboxes share a pid, an ipc, a uts and
	// a network namespace and the private temporary directories, but none of them a user
	// namespace. What a command leaves running goes on until the last of these
	// sandboxes is closed. Limits bound all of it together. A sandbox whose network, limits, user or
	// options are others is refused; where only values of credentials are, they hold for all from
	// then on. It is for [FeatureProcesses], and needs an ID and a Dir.
	Processes bool
}

// User is a numeric identity of the host.
type User struct {
	UID, GID uint32   // of the user and the primary group
	Groups   []uint32 // supplementary
}

// Feature names one thing that an engine can hold. Engines may claim features
// that this package does not know; the host ignores those.
type Feature string

const (
	FeatureUnconfined        Feature = "unconfined"         // runs commands without isolation; alone of its kind
	FeatureNetworkNone       Feature = "network.none"       // holds NetworkNone
	FeatureNetworkHost       Feature = "network.host"       // holds NetworkHost
	FeatureNetworkNames      Feature = "network.names"      // holds NetworkNames
	FeatureNetworkProxy      Feature = "network.proxy"      // of NetworkNames, what programs ask a proxy for that their variables name: others reach nothing; network.names has it
	FeatureNetworkInject     Feature = "network.inject"     // holds Network.Inject
	FeatureNetworkPorts      Feature = "network.ports"      // holds Network.HostPorts and Network.Publish
	FeatureNetworkTranslated Feature = "network.translated" // its NetworkHost leads out by addresses of its own: the host's loopback and ports are not reached
	FeatureNetworkTCP        Feature = "network.tcp"        // of NetworkNone, that no TCP connection is made or taken; network.none has it
	FeatureFilesystemMinimal Feature = "filesystem.minimal" // holds FilesystemMinimal
	FeatureFilesystemHost    Feature = "filesystem.host"    // holds FilesystemHost
	FeatureRemap             Feature = "mount.remap"        // an entry's Path may differ from its Source
	FeatureOverlay           Feature = "mount.overlay"      // holds Overlay
	FeatureOverlayKept       Feature = "mount.overlay.kept" // keeps the writes of an Overlay where KeptOverlay says
	FeatureTmpfs             Feature = "mount.tmpfs"        // holds Private
	FeatureSourceFD          Feature = "mount.source-fd"    // a source cannot be swapped between check and mount
	FeatureNested            Feature = "mount.nested"       // holds entries in a writable one that are ReadOnly, and Pins
	FeatureHidden            Feature = "hidden"             // holds entries that are Hidden, in a writable one, too, with Pins
	FeatureHomePrivate       Feature = "home.private"       // holds Home: empty and writable, and gone with the command or its session
	FeatureTempPrivate       Feature = "temp.private"       // /tmp, /var/tmp and /dev/shm are the sandbox's own, or are not there
	FeatureProcessesHidden   Feature = "processes.hidden"   // a command sees and reaches no process but its own, and none outlives it
	FeatureProcesses         Feature = "session.processes"  // holds Session.Processes
	FeatureKernelFiltered    Feature = "kernel.filtered"    // a command has no privilege and gets none, and calls of the kernel that it does not need are refused
	FeatureMetadata          Feature = "metadata"           // modes and times of what a command cannot write stay, and it does not learn whether what it cannot read is there
	FeatureDevices           Feature = "devices"            // shows Spec.Devices
	FeatureTTY               Feature = "tty"                // takes a host-owned terminal as stdio
	FeatureTrace             Feature = "command.trace"      // tells what a command with Trace failed at
	FeatureUser              Feature = "user"               // runs a command as Spec.User
	FeatureLimitMemory       Feature = "limit.memory"       // holds Limits.Memory for the whole tree, or has Open refuse it where a machine cannot
	FeatureLimitCPUs         Feature = "limit.cpus"         // likewise
	FeatureLimitPIDs         Feature = "limit.pids"         // likewise
	FeatureLimitOpenFiles    Feature = "limit.open_files"   // holds Limits.OpenFiles for each process
	FeatureLimitTempSize     Feature = "limit.temp_size"    // holds Limits.TempSize
)

// Features is the set an engine claims, in any order.
type Features []Feature

// Has reports whether f is in the set.
func (s Features) Has(f Feature) bool { return slices.Contains(s, f) }

// Validate checks the form of s, never the file system. Engines call it first
// in Open; its errors are ErrInvalidSpec and name the field.
func (s *Spec) Validate() error {
	if s.Filesystem != FilesystemMinimal && s.Filesystem != FilesystemHost {
		return invalid("filesystem", "unknown filesystem view %d", int32(s.Filesystem))
	}
	if s.Network.Mode < NetworkNone || s.Network.Mode > NetworkNames {
		return invalid("network", "unknown network mode %d", int32(s.Network.Mode))
	}
	if len(s.Network.Names) > 0 && s.Network.Mode != NetworkNames {
		return invalid("network", "names are listed for the network %q", s.Network.Mode)
	}
	if len(s.Network.Inject.Credentials) > 0 && s.Network.Mode != NetworkNames {
		return invalid("credentials", "credentials are put into requests for the network %q", s.Network.Mode)
	}
	if s.Limits.CPUs < 0 {
		return invalid("limits.cpus", "is negative")
	}
	if s.Home != "" {
		if err := checkPath("home", s.Home); err != nil {
			return err
		}
	}
	if s.Session.Dir != "" {
		if err := checkPath("session directory", s.Session.Dir); err != nil {
			return err
		}
	}
	if s.Session.Processes && (s.Session.ID == "" || s.Session.Dir == "") {
		return invalid("session.processes", "the session has no directory")
	}
	if err := validTable(s.Table); err != nil {
		return err
	}
	for _, p := range s.Devices {
		if err := checkPath("devices", p); err != nil {
			return err
		}
		if !strings.HasPrefix(p, "/dev/") {
			return invalid("devices", "%q is not in /dev", p)
		}
	}
	if len(s.Options) > 0 && !json.Valid(s.Options) {
		return invalid("options", "not valid JSON")
	}
	return nil
}

// checkPath accepts absolute, clean, slash-separated paths without NUL: all
// other spellings of one place would defeat comparison by text.
func checkPath(field, p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return invalid(field, "%q is not absolute", p)
	case strings.IndexByte(p, 0) >= 0:
		return invalid(field, "%q contains a NUL byte", p)
	case path.Clean(p) != p:
		return invalid(field, "%q is not in its shortest form", p)
	}
	return nil
}

func invalid(attribute, format string, args ...any) error {
	return &Error{Kind: ErrInvalidSpec, Attribute: attribute, Message: fmt.Sprintf(format, args...)}
}
