package enginetest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/shared"
)

// A lie is an engine that isolates, and does not do what one sentence of docs/protocol.md says
// that an engine with the feature does.
type lie struct {
	feature  shared.Feature // or ofSpec
	sentence string         // words of it
	what     string         // the engine does
	cases    string         // that can see it; one must
	breakage
}

// ofSpec stands for a feature where a sentence is about the Spec.
const ofSpec shared.Feature = ""

// unseen are sentences that no lie is told about, and why.
var unseen = map[string]string{
	"checks the real host's certificate": "TestNetworkByName: it takes a host at port 443 that the engine trusts",
	"new values of credentials":          "TestNetworkByName",
	"by addresses of its own":            "its other sentence is what can be seen",
}

// lies are all lies. What they keep on the host goes with t.
func lies(t *testing.T) []lie {
	dir := func() string {
		d, err := os.MkdirTemp("/var/tmp", "sbxhost-probe-lie-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(d) })
		return d
	}
	limits := func(change func(l *shared.Limits)) breakage {
		return opened(func(s *shared.Spec) { change(&s.Limits) })
	}
	user := func(change func(u *shared.User)) breakage {
		return opened(func(s *shared.Spec) {
			if s.User != nil {
				u := *s.User
				change(&u)
				s.User = &u
			}
		})
	}
	home := func(source string, access shared.Access) breakage {
		return opened(func(s *shared.Spec) {
			if s.Home != "" {
				from := source
				if from == "" {
					from = s.Home
				}
				s.Table = with(s.Table, shared.Entry{Source: from, Path: s.Home, Access: access})
			}
		})
	}
	processes := func(change func(s *shared.Spec)) breakage {
		return opened(func(s *shared.Spec) {
			if s.Session.Processes {
				change(s)
			}
		})
	}
	apart := processes(func(s *shared.Spec) { s.Session.Processes = false })
	unless := func(when func(*shared.Spec, *shared.Command) bool) breakage { return other(when, unmasked(".")) }
	private, furnished := dir(), dir()
	if err := os.WriteFile(filepath.Join(furnished, ".profile"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	// softly has a shell set what can be raised again.
	softly := limits(func(l *shared.Limits) { l.OpenFiles = 0 })
	softly.start = alongside("ulimit -S -n 64; exec \"$@\"").start
	toHost, rough := onNetwork(shared.NetworkNames, shared.NetworkHost), roughly(slices.Clone)
	const proxied = "net.27 net.30 net.31 net.32 net.33"
	return []lie{
		{shared.FeatureUnconfined, "does not isolate", "isolates besides", "open.01", claim(breakage{}, shared.FeatureUnconfined)},
		{shared.FeatureUnconfined, "go with it", "claims the host's view with it", "open.01", breakage{info: func(i shared.Info) shared.Info {
			i.Features = shared.Features{shared.FeatureUnconfined, shared.FeatureFilesystemHost}
			return i
		}}},

		{shared.FeatureNetworkNone, "implements", "gives the host's network", "net.01 net.02", onNetwork(shared.NetworkNone, shared.NetworkHost)},
		{shared.FeatureNetworkNone, "implements", "has no network namespace", "proc.07 net.06", outside()},
		{shared.FeatureNetworkHost, "implements", "gives none", "net.20", onNetwork(shared.NetworkHost, shared.NetworkNone)},
		{shared.FeatureNetworkNone, "implements", "gives the second command the host's", "net.35", later(func(s *shared.Spec) { s.Network.Mode = shared.NetworkHost })},
		{shared.FeatureNetworkNames, "enforces", "gives the host's network", proxied, toHost},
		{shared.FeatureNetworkNames, "enforces", "gives none", "net.34", onNetwork(shared.NetworkNames, shared.NetworkNone)},
		{shared.FeatureNetworkNames, "enforces", "takes the machine's name for listed", "net.27", opened(func(s *shared.Spec) {
			if name, _ := os.Hostname(); s.Network.Mode == shared.NetworkNames {
				s.Network.Names = append(slices.Clone(s.Network.Names), strings.ToLower(name)+":* private")
			}
		})},
		{shared.FeatureNetworkNames, "enforces", "tells nothing", "net.27 net.34", silent(shared.EventNetwork)},
		{shared.FeatureNetworkNames, "enforces", "lets what ! denies through", "net.36", opened(func(s *shared.Spec) {
			s.Network.Names = slices.DeleteFunc(slices.Clone(s.Network.Names), func(rule string) bool { return strings.HasPrefix(rule, "!") })
		})},
		{shared.FeatureNetworkNames, "enforces", "swaps what was sent and received", "net.34", sending(func(e *shared.Event) bool {
			if e.Kind == shared.EventNetwork {
				e.Details["sent"], e.Details["received"] = e.Details["received"], e.Details["sent"]
			}
			return true
		})},
		{shared.FeatureNetworkNames, "enforces", "tells no address", "net.34", detail("address", "")},
		{shared.FeatureNetworkNames, "enforces", "tells no time", "net.34", detail("duration_ns", "0")},
		{shared.FeatureNetworkNames, "enforces", "tells more time than there was", "net.34", detail("duration_ns", "3600000000000")},
		{shared.FeatureNetworkNames, "enforces", "tells no reason", "net.27", detail("reason", "")},
		{shared.FeatureNetworkNames, "enforces", "tells each thing twice", "net.34", breakage{events: func(p shared.Process) <-chan shared.Event {
			events := make(chan shared.Event)
			go func() {
				defer close(events)
				for e := range p.Events() {
					events <- e
					events <- e
				}
			}()
			return events
		}}},
		{shared.FeatureNetworkNames, "enforces", "tells that all was allowed", "net.27", detail("allowed", "true")},
		{shared.FeatureNetworkNames, "enforces", "tells that nothing was", "net.34", detail("allowed", "false")},
		{shared.FeatureNetworkNames, "enforces", "tells another name", "net.27 net.34", detail("name", "other.example")},
		{shared.FeatureNetworkNames, "enforces", "tells another port", "net.34", detail("port", "1")},
		{shared.FeatureNetworkNames, "enforces", "counts no bytes", "net.34", detail("received", "0")},
		{shared.FeatureNetworkNames, "enforces", "counts no connections", "net.34", detail("connections", "0")},
		{shared.FeatureNetworkNames, "enforces", "counts no bytes that are sent", "net.34", detail("sent", "0")},
		{shared.FeatureNetworkNames, "enforces", "leads to all ports of a listed name", "net.37", names(func(rule string) string {
			name, _, _ := strings.Cut(rule, ":")
			return name + ":* private"
		})},
		{shared.FeatureNetworkNames, "enforces", "leads to private addresses of each listed name", "net.38", names(func(rule string) string {
			return strings.TrimSuffix(rule, " private") + " private"
		})},
		{shared.FeatureNetworkNames, "enforces", "takes a name for listed that ends like one that is", "net.39", names(func(rule string) string {
			name, _, _ := strings.Cut(rule, ":")
			if own := machineName(); !strings.HasPrefix(rule, "!") && strings.HasSuffix(own, name) {
				rule = own + strings.TrimPrefix(rule, name)
			}
			return rule
		})},
		{shared.FeatureNetworkNames, "enforces", "tells not who it was where commands share the network", "session.06", detail("by", "")},
		{shared.FeatureNetworkProxy, "implements", "leads nothing out", "net.34", claim(onNetwork(shared.NetworkNames, shared.NetworkNone), shared.FeatureNetworkProxy, shared.FeatureNetworkNames)},
		{shared.FeatureNetworkProxy, "implements", "gives the host's network", proxied, claim(toHost, shared.FeatureNetworkProxy, shared.FeatureNetworkNames)},
		{shared.FeatureNetworkProxy, "includes", "tells nothing", "net.27 net.34", claim(silent(shared.EventNetwork), shared.FeatureNetworkProxy, shared.FeatureNetworkNames)},
		{shared.FeatureNetworkProxy, "implements", "leads everywhere by CONNECT", "net.27 net.41", byProxy(t, "CONNECT")},
		{shared.FeatureNetworkProxy, "implements", "leads everywhere by URLs", "net.41", byProxy(t, "GET")},
		{shared.FeatureNetworkProxy, "implements", "sets no HTTP_PROXY", "net.40", byProxy(t, "", "HTTP_PROXY")},
		{shared.FeatureNetworkProxy, "implements", "sets no HTTPS_PROXY", "net.40", byProxy(t, "", "HTTPS_PROXY")},
		{shared.FeatureNetworkProxy, "implements", "sets no ALL_PROXY", "net.40", byProxy(t, "", "ALL_PROXY")},
		{shared.FeatureNetworkInject, "is the TLS server", "leads to the hosts themselves", "command.21", opened(func(s *shared.Spec) { s.Network.Inject = shared.Injection{} })},
		{shared.FeatureNetworkInject, "Secrets", "has one in a note of the plan", "command.18", withSecret(func(secret string, p *shared.Plan) { p.Notes = append(p.Notes, secret) })},
		{shared.FeatureNetworkInject, "Secrets", "has one in a document of the plan", "command.18", withSecret(func(secret string, p *shared.Plan) {
			p.Documents = append(p.Documents, shared.PlanDocument{Name: "rules", Text: secret})
		})},
		{shared.FeatureNetworkPorts, "implements", "leads to no port of the host", "net.28", opened(func(s *shared.Spec) { s.Network.HostPorts = nil })},
		{shared.FeatureNetworkPorts, "implements", "leads to the first port alone", "net.28", opened(func(s *shared.Spec) { s.Network.HostPorts = s.Network.HostPorts[:min(1, len(s.Network.HostPorts))] })},
		{shared.FeatureNetworkPorts, "implements", "publishes the first port alone", "net.29", opened(func(s *shared.Spec) { s.Network.Publish = s.Network.Publish[:min(1, len(s.Network.Publish))] })},
		{shared.FeatureNetworkPorts, "implements", "leads to all ports of the host", "net.30", toHost},
		{shared.FeatureNetworkPorts, "implements", "publishes nothing", "net.29", opened(func(s *shared.Spec) { s.Network.Publish = nil })},
		{shared.FeatureNetworkPorts, "implements", "publishes at all addresses", "net.29", published(func(_, port, inside string) string { return "0.0.0.0:" + port + ":" + inside })},
		{shared.FeatureNetworkPorts, "implements", "takes a published port for the one inside", "net.29", published(func(address, port, _ string) string { return address + ":" + port + ":" + port })},
		{shared.FeatureNetworkTranslated, "loopback", "leads there", "net.25", claim(breakage{}, shared.FeatureNetworkTranslated)},
		{shared.FeatureNetworkTCP, "refuses", "keeps them from nothing", "net.01 net.02", claim(onNetwork(shared.NetworkNone, shared.NetworkHost), shared.FeatureNetworkTCP, shared.FeatureNetworkNone)},
		{shared.FeatureNetworkTCP, "includes", "claims both and keeps them from nothing", "net.01 net.03", claim(onNetwork(shared.NetworkNone, shared.NetworkHost), shared.FeatureNetworkTCP)},

		{shared.FeatureFilesystemMinimal, "implements", "shows the host's view", "read.01 read.30 read.31", opened(func(s *shared.Spec) { s.Filesystem = shared.FilesystemHost })},
		{shared.FeatureFilesystemMinimal, "implements", "shows the host's /run", "read.10", shows("/run", "/run")},
		{shared.FeatureFilesystemMinimal, "implements", "shows the host's /var/log", "read.12", shows("/var/log", "/var/log")},
		{shared.FeatureFilesystemMinimal, "implements", "shows the workspace's neighbours", "read.01 read.37", beside("outside", "")},
		{shared.FeatureFilesystemMinimal, "implements", "shows all, writable", "write.01 write.22", outside()},
		{shared.FeatureFilesystemMinimal, "implements", "shows the host's control groups, writable", "read.19 write.29", roughly(adding("--bind", "/sys/fs/cgroup", "/sys/fs/cgroup"))},
		{shared.FeatureFilesystemHost, "implements", "shows the minimal view", "read.72", opened(func(s *shared.Spec) { s.Filesystem = shared.FilesystemMinimal })},
		{shared.FeatureFilesystemHost, "implements", "shows all, writable", "write.23 write.89", outside()},
		{shared.FeatureFilesystemHost, "implements", "has no other view and shows all, writable", "write.01", hostViewAlone(outside())},
		{shared.FeatureFilesystemHost, "implements", "has no other view and lets what is read-only be written", "write.03 write.06 write.11", hostViewAlone(as(shared.ReadOnly, shared.ReadWrite))},
		{shared.FeatureFilesystemHost, "implements", "shows the host's /run", "read.11 read.83", inHostView("/run")},
		{shared.FeatureRemap, "shows", "shows it at its own path", "read.73", entries(func(e *shared.Entry) bool {
			if e.Source != "" {
				e.Path = e.Source
			}
			return true
		})},
		{shared.FeatureRemap, "shows", "leaves it out", "read.73", entries(func(e *shared.Entry) bool { return e.Source == "" || e.Source == e.Path })},
		{shared.FeatureRemap, "shows", "lets it be written", "write.80", entries(func(e *shared.Entry) bool {
			if e.Source != "" && e.Source != e.Path {
				e.Access = shared.ReadWrite
			}
			return true
		})},

		{shared.FeatureDevices, "implements", "leaves them out", "read.77", opened(func(s *shared.Spec) { s.Devices = nil })},
		{shared.FeatureDevices, "implements", "shows others", "read.78", opened(func(s *shared.Spec) { s.Devices = []string{"/dev/fuse"} })},
		{shared.FeatureDevices, "may use", "lets none be opened", "read.77", claim(roughly(adding("--bind", "/dev/fuse", "/dev/fuse")), shared.FeatureDevices)},
		{shared.FeatureDevices, "cannot change", "lets their modes be changed", "write.87", claim(roughly(adding("--dev-bind", "/dev/fuse", "/dev/fuse")), shared.FeatureDevices)},

		{shared.FeatureOverlay, "implements", "writes to the source", "write.44", as(shared.Overlay, shared.ReadWrite)},
		{shared.FeatureOverlay, "implements", "cannot be written", "write.44", as(shared.Overlay, shared.ReadOnly)},
		{shared.FeatureOverlay, "implements", "begins empty", "read.74", as(shared.Overlay, shared.Private)},
		{shared.FeatureOverlay, "its own", "has one for all commands", "command.20", opened(func(s *shared.Spec) {
			if s.Session.Dir != "" && s.Session.ID == "" {
				s.Session.ID = "all"
			}
		})},
		{shared.FeatureOverlayKept, "keeps an", "writes to the source", "command.17", as(shared.Overlay, shared.ReadWrite)},
		{shared.FeatureOverlayKept, "keeps an", "loses them", "command.17", inSession("holder/u*/overlay/*/upper/made", func(path string) { os.Remove(path) }, false)},
		{shared.FeatureOverlayKept, "keeps an", "loses what was removed", "command.17", inSession("holder/u*/overlay/*/upper/file", func(path string) { os.Remove(path) }, false)},
		{shared.FeatureOverlayKept, "keeps an", "loses that a directory is another", "command.17", inSession("holder/u*/overlay/*/upper/keys", func(path string) { unix.Removexattr(path, "user.overlay.opaque") }, false)},
		{shared.FeatureOverlayKept, "HASH", "calls it otherwise", "command.17", inSession("holder/u*/overlay/*", func(path string) { os.Rename(path, path+"0") }, false)},
		{shared.FeatureOverlayKept, "flock", "has no lock", "command.17", inSession("holder/u*/lock", func(path string) {
			os.Remove(path)
			os.WriteFile(path, nil, 0o600)
		}, true)},
		{shared.FeatureTmpfs, "implements", "shows the host's directory", "write.43 read.75", as(shared.Private, shared.ReadWrite)},
		{shared.FeatureTmpfs, "implements", "cannot be written", "write.43", as(shared.Private, shared.ReadOnly)},
		{shared.FeatureTmpfs, "implements", "keeps it for the next command", "read.79", entries(func(e *shared.Entry) bool {
			if e.Access == shared.Private {
				e.Source, e.Access = private, shared.ReadWrite
			}
			return true
		})},
		{shared.FeatureTmpfs, "implements", "leaves it out", "read.75", entries(func(e *shared.Entry) bool { return e.Access != shared.Private })},
		{shared.FeatureSourceFD, "mounts", "follows a symlink that took its place", "write.70 write.71", late(func(s *shared.Spec) {
			for i, e := range s.Table {
				if real, err := filepath.EvalSymlinks(e.Source); err == nil {
					s.Table[i].Source, s.Table[i].Path = real, real
				}
			}
		})},
		{shared.FeatureNested, "enforces", "leaves them writable", "write.16", as(shared.ReadOnly, shared.ReadWrite)},
		{shared.FeatureNested, "enforces", "holds directories alone", "write.77", entries(func(e *shared.Entry) bool {
			if info, err := os.Stat(e.Source); err == nil && info.Mode().IsRegular() {
				e.Access = shared.ReadWrite
			}
			return true
		})},
		{shared.FeatureNested, "keeps directories", "lets them be renamed", "write.17 write.18 write.74 write.75", rough},
		{shared.FeatureNested, "enforces", "forgets the fourth level", "write.81", changedTable(func(e *shared.Entry, above []shared.Entry) {
			if e.Access == shared.ReadOnly && len(above) > 2 {
				e.Access = shared.ReadWrite
			}
		})},
		{shared.FeatureNested, "enforces", "leaves them writable for the second command", "write.82", later(func(s *shared.Spec) {
			for i, e := range s.Table {
				if e.Access == shared.ReadOnly && strings.Contains(e.Path, "/ws/") {
					s.Table[i].Access = shared.ReadWrite
				}
			}
		})},

		{shared.FeatureHidden, "enforces", "shows all", "read.40 read.41 write.64", opened(unmasked("."))},
		{shared.FeatureHidden, "enforces", "shows it to the second command", "read.80", later(unmasked("."))},
		{shared.FeatureHidden, "enforces", "shows the names", "read.42", hiddenAs(func(e *shared.Entry) {
			if names, err := os.ReadDir(e.Path); err == nil {
				e.Source, e.Access = dir(), shared.ReadOnly
				for _, name := range names {
					os.WriteFile(filepath.Join(e.Source, name.Name()), nil, 0o644)
				}
			}
		})},
		{shared.FeatureHidden, "enforces", "lets commands write beside what is shown in it", "write.83", changedTable(func(e *shared.Entry, _ []shared.Entry) {
			if info, err := os.Stat(e.Path); err == nil && info.IsDir() && e.Access == shared.Hidden {
				e.Access = shared.Private
			}
		})},
		{shared.FeatureHidden, "enforces", "shows it to a command on a terminal", "read.67", unless(func(_ *shared.Spec, c *shared.Command) bool { return c.TTY })},
		{shared.FeatureHidden, "enforces", "shows it to a script", "read.68", unless(func(_ *shared.Spec, c *shared.Command) bool { return c.Script != "" })},
		{shared.FeatureHidden, "enforces", "shows it with the host's network", "read.69", unless(func(s *shared.Spec, _ *shared.Command) bool { return s.Network.Mode == shared.NetworkHost })},
		{shared.FeatureHidden, "enforces", "shows it in the host's view", "read.70", unless(func(s *shared.Spec, _ *shared.Command) bool { return s.Filesystem == shared.FilesystemHost })},
		{shared.FeatureHidden, "enforces", "has the host's view alone and shows it", "read.40 read.41 write.64", hostViewAlone(opened(unmasked(".")))},
		{shared.FeatureHidden, "enforces", "shows it in a session", "read.71", unless(func(s *shared.Spec, _ *shared.Command) bool { return s.Session.Dir != "" })},
		{shared.FeatureHidden, "enforces", "shows directories", "read.41 read.42", opened(unmasked("/keys$"))},
		{shared.FeatureHidden, "enforces", "hides no more than a hundred", "read.61", opened(unmasked("/many/0[1-9]"))},
		{shared.FeatureHidden, "enforces", "hides nothing in what is read-only", "read.57 net.13", opened(unmasked("/shown/"))},
		{shared.FeatureHidden, "enforces", "hides nothing in what is shown in a hidden directory", "read.64", opened(unmasked("/dir/sub/secret$"))},
		{shared.FeatureHidden, "enforces", "shows it, writable", "write.64 read.40", as(shared.Hidden, shared.ReadWrite)},

		{shared.FeatureHomePrivate, "implements", "shows the host's", "read.33 write.42", home("", shared.ReadWrite)},
		{shared.FeatureHomePrivate, "implements", "cannot be written", "write.42", home("", shared.ReadOnly)},
		{shared.FeatureHomePrivate, "implements", "keeps it for the next command", "read.76", home(dir(), shared.ReadWrite)},
		{shared.FeatureHomePrivate, "implements", "makes none", "write.42", opened(func(s *shared.Spec) { s.Home = "" })},
		{shared.FeatureHomePrivate, "share", "has one for each command of a session", "session.07", opened(func(s *shared.Spec) {
			if s.Home != "" {
				s.Session = shared.Session{}
			}
		})},
		{shared.FeatureHomePrivate, "empty", "has a .profile in it", "read.81", home(furnished, shared.ReadWrite)},
		{shared.FeatureTempPrivate, "private", "shows the host's /tmp", "read.13 write.41", shows("/tmp", "/tmp")},
		{shared.FeatureTempPrivate, "private", "shows the host's /var/tmp", "read.38 write.41", shows("/var/tmp", "/var/tmp")},
		{shared.FeatureTempPrivate, "private", "shows the host's /dev/shm", "read.39 write.41", roughly(adding("--bind", "/dev/shm", "/dev/shm"))},
		{shared.FeatureTempPrivate, "private", "keeps /tmp for the next command", "read.32", roughly(adding("--bind", dir(), "/tmp"))},
		{shared.FeatureTempPrivate, "private", "shows the second command the host's /tmp", "read.82", later(func(s *shared.Spec) {
			s.Table = with(s.Table, shared.Entry{Source: "/tmp", Path: "/tmp", Access: shared.ReadWrite})
		})},
		{shared.FeatureTempPrivate, "private", "keeps /var/tmp for the next command", "read.32", shows(dir(), "/var/tmp")},
		{shared.FeatureTempPrivate, "private", "keeps /dev/shm for the next command", "read.32", roughly(adding("--bind", dir(), "/dev/shm"))},

		{shared.FeatureTempPrivate, "private", "shows the host's /tmp in the host's view", "read.14", inHostView("/tmp")},
		{shared.FeatureProcessesHidden, "lets a command", "shows the host's", "read.22 proc.01 proc.08", roughly(func(words []string) []string {
			return replaced(words, "--unshare-all", "--unshare-user", "--unshare-net", "--unshare-ipc", "--unshare-uts")
		})},
		{shared.FeatureProcessesHidden, "lets a command", "lets them be signalled", "proc.09", outside()},
		{shared.FeatureProcessesHidden, "lets a command", "shares their memory", "proc.02 proc.28 proc.29", outside()},
		{shared.FeatureProcessesHidden, "lets a command", "shows one command another's", "command.11", opened(func(s *shared.Spec) {
			s.Session = shared.Session{ID: "a-lie", Dir: dir(), Processes: true}
		})},
		{shared.FeatureProcessesHidden, "leaves none", "lets a daemon go on", "life.01 life.02", outside()},
		{shared.FeatureProcessesHidden, "leaves none", "lets it go on after Close", "life.07", outside()},
		{shared.FeatureProcessesHidden, "leaves none", "lets it go on after the command's time", "life.03", outside()},
		{shared.FeatureProcessesHidden, "leaves none", "lets it go on after SIGKILL", "life.04", outside()},

		{shared.FeatureProcesses, "share pid", "shares nothing", "session.01", apart},
		{shared.FeatureProcesses, "share pid", "has a /tmp for each", "session.01", processes(func(s *shared.Spec) { s.Table = with(s.Table, shared.Entry{Path: "/tmp", Access: shared.Private}) })},
		{shared.FeatureProcesses, "share pid", "has a /var/tmp for each", "session.01", processes(func(s *shared.Spec) { s.Table = with(s.Table, shared.Entry{Path: "/var/tmp", Access: shared.Private}) })},
		{shared.FeatureProcesses, "share pid", "lets one into another's files", "session.02", apart},
		{shared.FeatureProcesses, "go on until", "ends it with the first sandbox", "session.01", closingAll()},
		{shared.FeatureProcesses, "go on until", "lets it go on after the last", "session.01", breakage{close: func(context.Context, shared.Sandbox) error { return nil }}},
		{shared.FeatureProcesses, "ends with the command", "waits for what it has left", "session.01", breakage{wait: func(ctx context.Context, _ shared.Process) (shared.Result, error) {
			<-ctx.Done()
			return shared.Result{}, ctx.Err()
		}}},
		{shared.FeatureProcesses, "SIGKILL", "ends the group alone", "session.03", breakage{signal: func(ctx context.Context, p shared.Process, sig syscall.Signal) error {
			if sig == syscall.SIGKILL {
				sig = syscall.SIGTERM
			}
			return p.Signal(ctx, sig)
		}}},
		{shared.FeatureProcesses, "Limits bound", "bounds each command", "session.04", apart},
		{shared.FeatureProcesses, "Limits bound", "bounds nothing", "session.04", limits(func(l *shared.Limits) { l.PIDs = 0 })},
		{shared.FeatureProcesses, "refuses another", "gives it what is there", "session.05", processes(func(s *shared.Spec) { s.Network, s.Limits = shared.Network{}, shared.Limits{} })},
		{shared.FeatureProcesses, "refuses another", "takes another user", "session.05", processes(func(s *shared.Spec) { s.User = nil })},
		{shared.FeatureProcesses, "SIGKILL", "ends the command alone when its time is up", "session.03", gently()},
		{shared.FeatureProcesses, "refuses another", "gives it one apart", "session.05", apart},

		{shared.FeatureMetadata, "modes and times", "lets modes be changed", "write.09", as(shared.ReadOnly, shared.ReadWrite)},
		{shared.FeatureMetadata, "modes and times", "lets times be changed", "write.10", as(shared.ReadOnly, shared.ReadWrite)},
		{shared.FeatureMetadata, "hides whether", "shows a name", "read.37", beside("outside/secret", "/dev/null")},
		{shared.FeatureMetadata, "host's name", "shows it", "proc.03 proc.30", roughly(func(words []string) []string {
			return replaced(words, "--unshare-all", "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc")
		})},
		{shared.FeatureKernelFiltered, "privileges", "leaves capabilities", "proc.10 proc.11", roughly(adding("--cap-add", "ALL"))},
		{shared.FeatureKernelFiltered, "privileges", "lets it mount", "proc.19 proc.23", roughly(adding("--cap-add", "ALL"))},
		{shared.FeatureKernelFiltered, "privileges", "leaves one", "proc.10 proc.11", roughly(adding("--cap-add", "CAP_NET_BIND_SERVICE"))},
		{shared.FeatureKernelFiltered, "privileges", "lets it gain some", "proc.12", outside()},
		{shared.FeatureKernelFiltered, "privileges", "lets it make setuid files", "write.31 write.33", rough},
		{shared.FeatureKernelFiltered, "privileges", "lets it make a namespace of users", "proc.17 proc.18", outside()},
		{shared.FeatureKernelFiltered, "system calls", "filters nothing", "proc.13", rough},
		{shared.FeatureKernelFiltered, "system calls", "lets it trace", "kernel.05 kernel.06", rough},
		{shared.FeatureKernelFiltered, "system calls", "lets it use keyrings", "kernel.12 kernel.13", rough},
		{shared.FeatureKernelFiltered, "system calls", "lets it make rings and handle faults", "kernel.10 kernel.20 kernel.21", rough},
		{shared.FeatureKernelFiltered, "system calls", "lets it have rare sockets", "kernel.39 kernel.40 kernel.43", rough},

		{shared.FeatureKernelFiltered, "system calls", "lets it type into the terminal", "kernel.01 kernel.02", outside()},
		{shared.FeatureTTY, "takes", "gives no controlling terminal", "stream.13", changed(func(c *shared.Command, _ *shared.Stdio) { c.TTY = false })},
		{shared.FeatureTTY, "takes", "has a pipe between", "stream.13", alongside(`"$@" | cat`)},
		{shared.FeatureTTY, "takes", "keeps typed signals back", "stream.13", alongside(`trap '' INT; exec "$@"`)},
		{shared.FeatureTrace, "reports", "traces nothing", "command.16", changed(func(c *shared.Command, _ *shared.Stdio) { c.Trace = false })},
		{shared.FeatureTrace, "reports", "tells nothing", "command.16", silent(shared.EventTraced)},
		{shared.FeatureTrace, "reports", "traces each command", "command.16", changed(func(c *shared.Command, _ *shared.Stdio) { c.Trace = true })},
		{shared.FeatureTrace, "reports", "cuts long paths", "command.16", traced(func(calls []shared.TracedCall) []shared.TracedCall {
			for i := range calls {
				calls[i].Target = calls[i].Target[:min(len(calls[i].Target), 100)]
			}
			return calls
		})},
		{shared.FeatureTrace, "reports", "tells of one call", "command.16", traced(func(calls []shared.TracedCall) []shared.TracedCall { return calls[:min(1, len(calls))] })},
		{shared.FeatureTrace, "reports", "tells of files alone", "command.16", traced(func(calls []shared.TracedCall) []shared.TracedCall {
			return slices.DeleteFunc(calls, func(c shared.TracedCall) bool { return c.Wants != "read" })
		})},
		{shared.FeatureTrace, "reports", "tells of no address", "command.16", traced(func(calls []shared.TracedCall) []shared.TracedCall {
			return slices.DeleteFunc(calls, func(c shared.TracedCall) bool { return c.Wants == "connect" })
		})},
		{shared.FeatureTrace, "reports", "tells of no program", "command.16", traced(func(calls []shared.TracedCall) []shared.TracedCall {
			return slices.DeleteFunc(calls, func(c shared.TracedCall) bool { return c.Wants == "execute" })
		})},
		{shared.FeatureTrace, "reports", "tells of no file", "command.16", detail("calls", "[]")},
		{shared.FeatureUser, "runs", "runs it as its own", "proc.41", opened(func(s *shared.Spec) { s.User = nil })},
		{shared.FeatureUser, "runs", "leaves it its own groups", "proc.41", user(func(u *shared.User) { u.Groups = append(slices.Clone(u.Groups), 0) })},
		{shared.FeatureUser, "runs", "takes its groups away", "proc.41", user(func(u *shared.User) { u.Groups = nil })},
		{shared.FeatureUser, "runs", "takes another group", "proc.41", user(func(u *shared.User) { u.GID++ })},
		{shared.FeatureUser, "runs", "takes another user", "proc.41", user(func(u *shared.User) { u.UID++ })},
		{shared.FeatureLimitMemory, "enforces", "does not", "proc.36", limits(func(l *shared.Limits) { l.Memory = 0 })},
		{shared.FeatureLimitMemory, "enforces", "holds it for each process", "proc.37", limits(func(l *shared.Limits) { l.Memory *= 8 })},
		{shared.FeatureLimitCPUs, "enforces", "does not", "proc.39", limits(func(l *shared.Limits) { l.CPUs = 0 })},
		{shared.FeatureLimitPIDs, "enforces", "does not", "proc.35", limits(func(l *shared.Limits) { l.PIDs = 0 })},
		{shared.FeatureLimitPIDs, "enforces", "counts not all", "proc.35", limits(func(l *shared.Limits) { l.PIDs += 60 })},
		{shared.FeatureLimitPIDs, "enforces", "bounds the first command alone", "proc.43", later(func(s *shared.Spec) { s.Limits.PIDs = 0 })},
		{shared.FeatureLimitOpenFiles, "enforces", "does not", "proc.38", limits(func(l *shared.Limits) { l.OpenFiles = 0 })},
		{shared.FeatureLimitOpenFiles, "enforces", "lets it be raised", "proc.38", softly},
		{shared.FeatureLimitTempSize, "enforces", "does not", "write.45 write.46", limits(func(l *shared.Limits) { l.TempSize = 0 })},
		{shared.FeatureLimitTempSize, "enforces", "has the host's view alone and does not", "write.45 write.46", hostViewAlone(limits(func(l *shared.Limits) { l.TempSize = 0 }))},
		{shared.FeatureLimitTempSize, "enforces", "does not in /var/tmp", "write.84", shows(dir(), "/var/tmp")},
		{shared.FeatureLimitTempSize, "enforces", "does not in the home", "write.85", home(dir(), shared.ReadWrite)},
		{shared.FeatureLimitTempSize, "enforces", "does not in a tmpfs mount", "write.86", entries(func(e *shared.Entry) bool {
			if e.Access == shared.Private {
				e.Source, e.Access = private, shared.ReadWrite
			}
			return true
		})},
		{shared.FeatureLimitTempSize, "enforces", "holds it for all but /dev/shm", "write.46", rough},

		{ofSpec, "`attribute` is the entry's `why`", "names another attribute", "host.13", breakage{open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			s, err := e.Open(ctx, spec)
			if one, ok := errors.AsType[*shared.Error](err); ok {
				err = &shared.Error{Kind: one.Kind, Attribute: "table", Message: one.Message}
			}
			return s, err
		}}},
		{ofSpec, "`missing` decides", "takes each path that is missing", "host.13", missing(shared.MissingRefuse, shared.MissingIgnore)},
		{ofSpec, "`missing` decides", "takes none", "host.13", missing(shared.MissingIgnore, shared.MissingRefuse)},
		{ofSpec, "`missing` decides", "takes what the host was to hold", "host.13", missing(shared.MissingHold, shared.MissingIgnore)},
		{ofSpec, "path of a hidden entry", "takes each hidden path that is missing", "host.13", hiddenAs(func(e *shared.Entry) { e.Missing = shared.MissingIgnore })},
		{ofSpec, "creates no mount points", "makes one for what is hidden and missing", "write.61", hiddenAs(func(e *shared.Entry) {
			if f, err := os.OpenFile(e.Path, os.O_CREATE|os.O_EXCL, 0o600); err == nil {
				f.Close()
			}
		})},
	}
}
