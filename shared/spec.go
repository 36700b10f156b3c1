package shared

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
)

// Spec is the whole policy of one sandbox, resolved: every path is absolute and clean, and the
// engine adds only the curated operating system view. The zero value isolates.
type Spec struct {
	// Sandbox is the definition's name, for messages.
	Sandbox string

	// Unconfined runs the command without isolation. Only the host's policy sets it. An engine that
	// isolates refuses it; an engine that does not isolate refuses a Spec without it.
	Unconfined bool

	// Filesystem chooses the view beneath the Table.
	Filesystem Filesystem

	// Table lists what is shown, protected and hidden over that view. The host sorts it, a
	// directory before its contents; each path is there once.
	Table []Entry

	// BestEffort permits the engine to leave out isolation whose features it does not claim. The
	// host reports these losses; without BestEffort it refuses the Spec. See Without.
	BestEffort bool

	// Home is the path of the command's home directory: private, writable, and empty except for
	// entries of the Table. Empty means none.
	Home string

	// Network is what the command can reach.
	Network Network

	// Limits bound the command's resources.
	Limits Limits

	// Session is the group of commands that share scratch space.
	Session Session

	// Prepare asks the engine to make an empty sandbox after a command, for the next one, which
	// then starts faster. A process waits in it. It serves one command, as every sandbox. An engine
	// may ignore this.
	Prepare bool

	// User is the user that the command runs as; nil means the engine's own. An engine process that
	// is not root refuses any other.
	User *User

	// Devices are paths of character devices in /dev, which commands may use at the same paths
	// inside. The host has checked them.
	Devices []string

	// Options is a JSON object of the engine's own options, which the host has checked with the
	// schema in [Info]. Empty means none.
	Options json.RawMessage
}

// Filesystem is the view beneath a Spec's table.
type Filesystem int32

const (
	// FilesystemMinimal is a curated, read-only set of operating system files (programs, libraries,
	// the harmless part of /etc; see [MinimalView]), a fresh /proc and /dev, and an empty private
	// /tmp; nothing else of the host. /dev has null, zero, full, random, urandom, tty, pts, shm, and
	// the symlinks ptmx, fd, stdin, stdout and stderr. Of /sys an engine may show devices/system/cpu
	// and node, read-only.
	FilesystemMinimal Filesystem = iota
	// FilesystemHost is the host's tree, read-only, under a fresh /proc and /dev and an empty
	// private /tmp and /run.
	FilesystemHost
)

// String returns a definition's word for f.
func (f Filesystem) String() string { return spell("filesystem", f, "minimal", "host") }

// Network is what a command can reach. The zero value is its own loopback alone.
type Network struct {
	// Mode chooses the network.
	Mode NetworkMode
	// Names are, with NetworkNames, rules in the form of package egress: "registry.npmjs.org",
	// "*.github.com:443". Only what they allow is reachable; an empty list allows nothing.
	Names []string
	// HostPorts are TCP ports of the host's loopback that the command finds on its own loopback.
	// NetworkHost needs nothing for them.
	HostPorts []uint16
	// Publish are TCP ports of the command's loopback on which the host listens, in the form of
	// package egress: "3000", "8080:3000", "192.0.2.1:8080:3000".
	Publish []string
	// Inject adds credentials to requests outside of the sandbox, with NetworkNames. It needs
	// [FeatureNetworkInject].
	Inject Injection
}

// An Injection says which requests get credentials that no command has. For their hosts, the engine
// is a TLS server to commands at port 443, and checks the hosts' own certificates.
type Injection struct {
	// Certificate is PEM text with three parts: a certificate for all Hosts; the certificate of its
	// issuer, which the Table shows to commands; and the key of the first certificate.
	Certificate Secret
	Credentials []Credential // empty: no request gets any
}

// A Credential replaces Placeholder in a header of requests to Hosts, also inside Basic
// authentication. Each request must be for the host of its connection.
type Credential struct {
	Hosts       []string // names that Network.Names lets commands reach at port 443
	Header      string   // such as "Authorization"
	Placeholder string   // the command's text
	Value       Secret   // the text that replaces it
}

// A Secret does not appear in logs and output.
type Secret string

// String returns no secret.
func (Secret) String() string { return "(secret)" }

// GoString returns no secret.
func (Secret) GoString() string { return "(secret)" }

// MarshalText returns no secret.
func (Secret) MarshalText() ([]byte, error) { return []byte("(secret)"), nil }

// Gated reports whether a process passes connections between the command's network and the host's.
func (n *Network) Gated() bool {
	return n.Mode != NetworkHost && (n.Mode == NetworkNames || len(n.HostPorts) > 0 || len(n.Publish) > 0)
}

// NetworkMode is the kind of network of a sandbox.
type NetworkMode int32

const (
	NetworkNone  NetworkMode = iota // its own loopback only
	NetworkHost                     // the host's network
	NetworkNames                    // its own loopback, and what Network.Names allows
)

// String returns text for people.
func (m NetworkMode) String() string { return spell("network", m, "none", "host", "names") }

// Limits bound a command. Zero means no limit of that kind.
type Limits struct {
	Memory     uint64  `json:"memory,omitempty"`     // bytes
	CPUs       float64 `json:"cpus,omitempty"`       // processors' worth of time
	PIDs       uint64  `json:"pids,omitempty"`       // processes and threads at once
	OpenFiles  uint64  `json:"open_files,omitempty"` // descriptors in each process
	TempSize   uint64  `json:"temp_size,omitempty"`  // bytes in each private temporary file system
	BestEffort bool    `json:"-"`                    // report a limit that cannot be enforced; false refuses it
}

// Session names the state that commands share. Two Specs may use one session at once.
type Session struct {
	// ID is unique on this machine. Empty means that commands share nothing: the overlays of each
	// command end with it.
	ID  string
	Dir string // absolute host path of the scratch directory; empty means none
	// Processes makes the commands of the session's sandboxes share a pid, an ipc, a uts and a
	// network namespace and the private temporary directories, but no user namespace. What a
	// command leaves running goes on until the last of these sandboxes closes. Limits bound all
	// processes of the session together. The engine refuses a sandbox with another network, user,
	// options or other limits. If only values of credentials differ, the new values apply to the
	// whole session. It needs [FeatureProcesses], an ID and a Dir.
	Processes bool
}

// User is a numeric identity of the host.
type User struct {
	UID    uint32   `json:"uid"` // the user
	GID    uint32   `json:"gid"` // the primary group
	Groups []uint32 `json:"-"`   // supplementary
}

// Feature names one thing that an engine can enforce. The host ignores features that it does not
// know.
type Feature string

const (
	FeatureUnconfined        Feature = "unconfined"         // runs commands without isolation: an engine may combine it only with tty, user, limits and kinds of entries
	FeatureNetworkNone       Feature = "network.none"       // enforces NetworkNone
	FeatureNetworkHost       Feature = "network.host"       // provides NetworkHost
	FeatureNetworkNames      Feature = "network.names"      // enforces NetworkNames
	FeatureNetworkProxy      Feature = "network.proxy"      // enforces NetworkNames by a proxy, which programs must use by their variables, and leaves them no other network; network.names implies it
	FeatureNetworkInject     Feature = "network.inject"     // provides Network.Inject
	FeatureNetworkPorts      Feature = "network.ports"      // provides Network.HostPorts and Network.Publish
	FeatureNetworkTranslated Feature = "network.translated" // its NetworkHost uses its own addresses: the host's loopback and ports are out of reach
	FeatureNetworkTCP        Feature = "network.tcp"        // enforces a part of NetworkNone: refuses TCP connections in both directions; network.none implies it
	FeatureFilesystemMinimal Feature = "filesystem.minimal" // provides FilesystemMinimal
	FeatureFilesystemHost    Feature = "filesystem.host"    // provides FilesystemHost
	FeatureRemap             Feature = "mount.remap"        // an entry's Path may differ from its Source
	FeatureOverlay           Feature = "mount.overlay"      // provides Overlay
	FeatureOverlayKept       Feature = "mount.overlay.kept" // keeps the writes of an Overlay at KeptOverlay
	FeatureTmpfs             Feature = "mount.tmpfs"        // provides Private
	FeatureSourceFD          Feature = "mount.source-fd"    // nobody can swap a source between check and mount
	FeatureNested            Feature = "mount.nested"       // enforces ReadOnly entries in a writable one, and Pins
	FeatureHidden            Feature = "hidden"             // enforces Hidden entries, also in a writable one, with Pins
	FeatureHomePrivate       Feature = "home.private"       // provides Home: empty and writable, until the end of the command or session
	FeatureTempPrivate       Feature = "temp.private"       // /tmp, /var/tmp and /dev/shm are the sandbox's own, or missing
	FeatureProcessesHidden   Feature = "processes.hidden"   // a command sees and reaches only its own processes, and none outlives it
	FeatureProcesses         Feature = "session.processes"  // provides Session.Processes
	FeatureKernelFiltered    Feature = "kernel.filtered"    // a command has and gets no privilege, and the kernel refuses it system calls that it does not need
	FeatureMetadata          Feature = "metadata"           // a command cannot change modes and times of files that it cannot write, nor find out whether files exist that it cannot read
	FeatureDevices           Feature = "devices"            // shows Spec.Devices
	FeatureTTY               Feature = "tty"                // accepts a terminal of the host as stdio
	FeatureTrace             Feature = "command.trace"      // reports what a command with Trace failed at
	FeatureUser              Feature = "user"               // runs a command as Spec.User
	FeatureLimitMemory       Feature = "limit.memory"       // enforces Limits.Memory for the whole tree, or Open refuses it on a machine that cannot
	FeatureLimitCPUs         Feature = "limit.cpus"         // as limit.memory, for Limits.CPUs
	FeatureLimitPIDs         Feature = "limit.pids"         // as limit.memory, for Limits.PIDs
	FeatureLimitOpenFiles    Feature = "limit.open_files"   // enforces Limits.OpenFiles for each process
	FeatureLimitTempSize     Feature = "limit.temp_size"    // enforces Limits.TempSize
)

// Features is the set of an engine's claims, in any order.
type Features []Feature

// Has reports whether f is in the set.
func (s Features) Has(f Feature) bool { return slices.Contains(s, f) }

// Validate checks the form of s, never the file system. Engines call it first in Open. Its errors
// are ErrInvalidSpec and name the field.
func (s *Spec) Validate() error {
	switch n := &s.Network; {
	case s.Filesystem != FilesystemMinimal && s.Filesystem != FilesystemHost:
		return invalid("filesystem", "unknown filesystem view %d", int32(s.Filesystem))
	case n.Mode < NetworkNone || n.Mode > NetworkNames:
		return invalid("network", "unknown network mode %d", int32(n.Mode))
	case len(n.Names) > 0 && n.Mode != NetworkNames:
		return invalid("network", "names are listed for the network %q", n.Mode)
	case len(n.Inject.Credentials) > 0 && n.Mode != NetworkNames:
		return invalid("credentials", "credentials are put into requests for the network %q", n.Mode)
	case slices.Contains(n.HostPorts, 0):
		return invalid("host_ports", "0 is not a port")
	case !(s.Limits.CPUs >= 0 && s.Limits.CPUs <= math.MaxFloat64): // nor NaN
		return invalid("limits.cpus", "is negative, or no finite number")
	case s.Session.Processes && (s.Session.ID == "" || s.Session.Dir == ""):
		return invalid("session.processes", "the session has no directory")
	case len(s.Options) > 0 && !json.Valid(s.Options):
		return invalid("options", "not valid JSON")
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
	return nil
}
