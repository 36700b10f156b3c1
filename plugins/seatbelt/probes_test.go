package seatbelt

import (
	"slices"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func service(name string) sbplAccess {
	return sbplAccess{Operation: "mach-lookup", Service: name}
}

func socket(operation, host, port string) sbplAccess {
	return sbplAccess{Operation: operation, SocketDomain: "AF_INET", Host: host, Port: port}
}

func unixSocket(operation, path string) sbplAccess {
	return sbplAccess{Operation: operation, SocketDomain: "AF_UNIX", Path: path}
}

func fileAt(operation, path string) sbplAccess {
	return sbplAccess{Operation: operation, Path: path}
}

// every is the profiles of one project in all views.
func every(t *testing.T) map[string]*world {
	t.Helper()
	offline, online, host := project(), project(), project()
	online.Network.Mode = shared.NetworkHost
	host.Filesystem = shared.FilesystemHost
	hostOnline := host
	hostOnline.Network.Mode = shared.NetworkHost
	return map[string]*world{
		"offline": modelled(t, offline, shared.Command{}), "online": modelled(t, online, shared.Command{}),
		"host": modelled(t, host, shared.Command{}), "host online": modelled(t, hostOnline, shared.Command{}),
		"terminal": modelled(t, offline, shared.Command{TTY: true}),
	}
}

// What the kit has the system's programs do for it is closed in every view, not
// only in its own.
func TestKitInEveryView(t *testing.T) {
	t.Parallel()
	trials, err := enginetest.MacTrials(t.TempDir(), "/Users/me/Library/Caches/sbxhost-probe-1", "/Users/me")
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	worlds := every(t)
	for _, m := range trials {
		for _, way := range waysOf(&m.Trial) {
			if len(way) == 0 || way[0].Operation != "process-exec" {
				continue
			}
			for name, w := range worlds {
				if asked++; !slices.ContainsFunc(way, func(a kitAttempt) bool { return !w.attempt(a) }) {
					t.Errorf("%s: %s, %s: %+v is allowed", name, m.ID, m.Title, way)
				}
			}
		}
	}
	if asked < 100 {
		t.Errorf("only %d ways were asked for", asked)
	}
}

// What no action of the kit asks for and has been a way out, each with a control:
// the access that shows that the profile is not merely closed.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	worlds := every(t)
	for _, tt := range []struct {
		name    string
		denied  []sbplAccess
		control sbplAccess
	}{
		{"keys, histories and documents of the home", []sbplAccess{
			fileAt("file-read-data", "/Users/me/.ssh/id_ed25519"), fileAt("file-read-data", "/Users/me/.zsh_history"), fileAt("file-read-metadata", "/Users/me/Documents/x"),
			fileAt("file-read-data", "/Users/me"), fileAt("file-read-data", "/System/Volumes/Data/Users/me/.ssh/id_ed25519"), fileAt("file-read-data", "/Users/me/Library/Cookies/x"),
		}, fileAt("file-read-data", "/Users/me/.gitconfig")},
		{"temporary files of others", []sbplAccess{
			fileAt("file-read-data", "/private/tmp/x"), fileAt("file-read-data", "/private/var/folders/zz/abc/T/other/x"), fileAt("file-write-create", "/private/tmp/x"),
			fileAt("file-read-data", "/System/Volumes/Data/private/tmp/x"), fileAt("file-read-data", private.scratch+"/profile.sb"), fileAt("file-write-data", private.scratch+"/profile.sb"),
		}, fileAt("file-write-create", private.temp+"/x")},
		{"the system itself", []sbplAccess{
			fileAt("file-write-data", "/usr/bin/true"), fileAt("file-write-create", "/usr/local/bin/x"), fileAt("file-write-data", "/private/etc/hosts"),
			fileAt("file-write-create", "/Library/LaunchDaemons/x.plist"), fileAt("file-write-data", "/dev/disk0"), fileAt("file-read-data", "/dev/disk0"),
		}, fileAt("process-exec", "/usr/bin/true")},
		{"launch agents and login hooks of the home", []sbplAccess{
			fileAt("file-write-create", "/Users/me/Library/LaunchAgents/x.plist"), fileAt("file-write-data", "/Users/me/Library/Preferences/com.apple.loginwindow.plist"),
		}, fileAt("file-write-create", private.home+"/.config")},
		{"ports of other tasks and of the host", []sbplAccess{
			{Operation: "mach-priv-task-port", Target: "others"}, {Operation: "mach-priv-host-port"},
		}, sbplAccess{Operation: "process-fork"}},
		{"files of keychains", []sbplAccess{
			fileAt("file-read-data", "/Users/me/Library/Keychains/login.keychain-db"), fileAt("file-read-data", "/Library/Keychains/System.keychain"),
		}, sbplAccess{Operation: "ipc-posix-sem"}},
		{"interpreters of another sandbox-exec", []sbplAccess{fileAt("process-exec-interpreter", "/usr/bin/sandbox-exec")}, fileAt("process-exec", "/usr/bin/env")},
		{"processes of others", []sbplAccess{
			{Operation: "signal", Target: "others"}, {Operation: "process-info*", Target: "others"}, {Operation: "mach-task-name", Target: "others"},
		}, sbplAccess{Operation: "signal", Target: "same-sandbox"}},
		{"shared memory, kernel and firmware settings", []sbplAccess{
			{Operation: "ipc-posix-shm*"}, {Operation: "ipc-sysv*"}, {Operation: "sysctl-write", Sysctl: "kern.hostname"}, {Operation: "sysctl-read", Sysctl: "kern.procargs2"},
			{Operation: "nvram*"}, {Operation: "iokit-open"}, {Operation: "hid-control"},
		}, sbplAccess{Operation: "sysctl-read", Sysctl: "hw.ncpu"}},
		{"other terminals, and typing into them", []sbplAccess{
			fileAt("file-read-data", "/dev/ttys000"), fileAt("file-write-data", "/dev/ttys000"),
		}, sbplAccess{Operation: "file-write-data", Path: "/dev/ttys007", Extension: "com.apple.sandbox.pty"}},
		{"sockets of daemons", []sbplAccess{
			unixSocket("network-outbound", "/private/var/run/docker.sock"), unixSocket("network-outbound", "/Users/me/.docker/run/docker.sock"),
			unixSocket("network-outbound", "/private/tmp/com.apple.launchd.x/Listeners"), unixSocket("network-outbound", "/Users/me/p/agent.sock"),
			unixSocket("network-bind", "/Users/me/p/x.sock"), {Operation: "system-socket", SocketDomain: "AF_NDRV"}, {Operation: "system-socket", SocketDomain: "AF_SYSTEM", SocketProtocol: "1"},
		}, unixSocket("network-outbound", private.temp+"/own.sock")},
		{"set-user-id and devices", []sbplAccess{
			fileAt("file-write-setugid", "/Users/me/p/x"), fileAt("file-write-setugid", private.temp+"/x"), fileAt("file-mknod", "/Users/me/p/x"), fileAt("file-mount", "/Users/me/p"),
		}, fileAt("file-write-mode", "/Users/me/p/x")},
		{"xcrun's cache, by which /usr/bin/git is found", []sbplAccess{
			fileAt("file-write-data", "/private/var/folders/zz/abc/T/xcrun_db"), fileAt("file-write-create", "/private/var/folders/zz/abc/C/xcrun_db-x"),
		}, fileAt("file-read-data", "/private/var/folders/zz/abc/T/xcrun_db")},
	} {
		for name, w := range worlds {
			for _, a := range tt.denied {
				if w.ask(a) {
					t.Errorf("%s, %s: %+v is allowed", name, tt.name, a)
				}
			}
			if !w.ask(tt.control) {
				t.Errorf("%s, %s: control %+v is denied", name, tt.name, tt.control)
			}
		}
	}
}

func TestNetwork(t *testing.T) {
	t.Parallel()
	offline, online := project(), project()
	online.Network.Mode = shared.NetworkHost
	off, on := modelled(t, offline, shared.Command{}), modelled(t, online, shared.Command{})
	for _, a := range []sbplAccess{
		socket("network-outbound", "example.com", "443"), socket("network-outbound", "localhost", "5432"), socket("network-bind", "localhost", "8080"),
		socket("network-inbound", "localhost", "8080"), socket("network-outbound", "10.0.0.1", "53"),
		unixSocket("network-outbound", "/private/var/run/mDNSResponder"), service("com.apple.SystemConfiguration.DNSConfiguration"), service("com.apple.trustd"),
		{Operation: "system-socket", SocketDomain: "AF_ROUTE"}, {Operation: "system-socket", SocketDomain: "AF_SYSTEM", SocketProtocol: "2"},
	} {
		if off.ask(a) {
			t.Errorf("without the network %+v is allowed", a)
		}
		if !on.ask(a) {
			t.Errorf("with the network %+v is denied", a)
		}
	}
	if on.ask(unixSocket("network-outbound", "/private/var/run/mDNSResponder2")) || !off.ask(sbplAccess{Operation: "system-socket", SocketDomain: "AF_UNIX"}) {
		t.Error("unix sockets")
	}
}

// With a list of names there is the way to the proxy and no other: not even to what asks the
// network on a command's behalf.
func TestProxyAlone(t *testing.T) {
	t.Parallel()
	spec := project()
	spec.Network = shared.Network{Mode: shared.NetworkNames, Names: []string{"example.com"}}
	at := private
	at.proxy = 40000
	p, err := newPolicy(&spec, &shared.Command{})
	if err != nil {
		t.Fatal(err)
	}
	profile, err := compile(p, at)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	if w.profile, err = parseSBPL(profile.text, profile.values()); err != nil {
		t.Fatal(err)
	}
	if !w.ask(socket("network-outbound", "localhost", "40000")) {
		t.Error("the proxy is out of reach")
	}
	for _, a := range []sbplAccess{
		socket("network-outbound", "example.com", "443"), socket("network-outbound", "example.com", "40000"), socket("network-outbound", "localhost", "40001"),
		socket("network-bind", "localhost", "40000"), socket("network-inbound", "localhost", "40000"), socket("network-outbound", "10.0.0.1", "53"),
		unixSocket("network-outbound", "/private/var/run/mDNSResponder"), service("com.apple.SystemConfiguration.DNSConfiguration"),
		service("com.apple.trustd"), service("com.apple.trustd.agent"), service("com.apple.networkd"), service("com.apple.nsurlsessiond"),
	} {
		if w.ask(a) {
			t.Errorf("%+v is allowed", a)
		}
	}
}

// Only a command with a terminal can set it, and type into it; TIOCSTI is one of
// these calls.
func TestTerminalCalls(t *testing.T) {
	t.Parallel()
	without, with := modelled(t, project(), shared.Command{}), modelled(t, project(), shared.Command{TTY: true})
	for _, path := range []string{"/dev/ttys000", "/dev/tty"} {
		a := fileAt("file-ioctl", path)
		if without.ask(a) || !with.ask(a) {
			t.Errorf("%s: %v without a terminal, %v with one", path, without.ask(a), with.ask(a))
		}
	}
	for _, w := range []*world{without, with} {
		if !w.ask(sbplAccess{Operation: "pseudo-tty"}) || !w.ask(fileAt("file-read-data", "/dev/ptmx")) ||
			w.ask(fileAt("file-ioctl", "/dev/console")) || w.ask(fileAt("file-ioctl", "/dev/ttysx")) {
			t.Error("terminals of the command's own")
		}
	}
}

// What programs need before they do anything works in every view.
func TestProgramsStart(t *testing.T) {
	t.Parallel()
	host := shared.Spec{Filesystem: shared.FilesystemHost}
	for _, w := range []*world{modelled(t, shared.Spec{}, shared.Command{}), modelled(t, host, shared.Command{})} {
		for _, a := range []sbplAccess{
			fileAt("file-read-data", "/"), fileAt("file-read-metadata", "/private/var"), fileAt("file-read-metadata", "/tmp"), fileAt("file-read-metadata", "/etc"),
			fileAt("file-read-data", "/System/Volumes/Preboot/Cryptexes/OS/System/Library/dyld/dyld_shared_cache_arm64e"), fileAt("file-map-executable", "/usr/lib/libSystem.B.dylib"),
			fileAt("file-read-data", "/dev/null"), fileAt("file-write-data", "/dev/null"), fileAt("file-read-data", "/dev/urandom"), fileAt("file-ioctl", "/dev/dtracehelper"),
			fileAt("process-exec", "/bin/sh"), fileAt("process-exec-interpreter", "/bin/sh"), fileAt("file-read-data", "/private/etc/passwd"), fileAt("file-read-data", "/private/var/db/timezone/zoneinfo/UTC"),
			fileAt("file-read-data", "/private/var/select/sh"), fileAt("process-exec", "/opt/homebrew/bin/git"), fileAt("process-exec", "/Library/Developer/CommandLineTools/usr/bin/git"),
			fileAt("process-exec", "/Applications/Xcode-beta.app/Contents/Developer/usr/bin/git"), fileAt("file-read-data", "/private/etc/ssl/cert.pem"), fileAt("file-read-data", "/dev/fd/3"),
		} {
			if !w.ask(a) {
				t.Errorf("%+v is denied", a)
			}
		}
	}
}

// A program that find takes for visible is one that the profile lets run.
func TestSystemProgramsAreInTheView(t *testing.T) {
	t.Parallel()
	w := modelled(t, shared.Spec{}, shared.Command{})
	for _, dir := range systemPrograms {
		if !w.policy.executableAt(dir+"/x") || !w.ask(fileAt("process-exec", dir+"/x")) {
			t.Errorf("%s: the profile and the lookup differ", dir)
		}
	}
	for _, path := range []string{"/private/tmp/x", "/Users/me/x", "/Library/Preferences/x"} {
		if w.policy.executableAt(path) || w.ask(fileAt("process-exec", path)) {
			t.Errorf("%s is executable", path)
		}
	}
}
