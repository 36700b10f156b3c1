package seatbelt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// These tests run on a Mac alone, by the system's own sandbox-exec.

// real opens a sandbox on a workspace that has something to hide.
type real struct {
	t                *testing.T
	home, ws         string // resolved
	outsider, secret string
	sandbox          shared.Sandbox
}

func needSeatbelt(t *testing.T) {
	t.Helper()
	probe, err := New().Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !probe.Ready {
		absent(t, probe.Reason)
	}
}

// absent skips a test for want of something, unless it is said to be there.
func absent(t *testing.T, why string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "seatbelt") {
		t.Fatalf("SBXHOST_REQUIRE lists seatbelt: %s", why)
	}
	t.Skip(why)
}

func openReal(t *testing.T, change func(*shared.Spec)) *real {
	t.Helper()
	needSeatbelt(t)
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &real{t: t, home: filepath.Join(top, "home"), ws: filepath.Join(top, "home/ws"), outsider: filepath.Join(top, "outsider"), secret: filepath.Join(top, "home/ws/deep/.env")}
	for _, dir := range []string{r.ws + "/deep", r.ws + "/.git/hooks", r.home + "/Library/LaunchAgents", top + "/session"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{r.outsider, r.secret, r.home + "/.ssh-key", r.ws + "/open", r.ws + "/.envrc"} {
		if err := os.WriteFile(file, []byte("content of "+filepath.Base(file)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	spec := shared.Spec{
		Sandbox: "real", Home: r.home, Session: shared.Session{ID: t.Name(), Dir: filepath.Join(top, "session")},
		Table: []shared.Entry{mount(r.ws, shared.ReadWrite, "workspace"), mount(r.ws+"/.git/hooks", shared.ReadOnly, "protected: git hooks"),
			mount(r.ws+"/.envrc", shared.ReadOnly, "protected: protect_paths"), hidden(r.secret)},
	}
	if change != nil {
		change(&spec)
	}
	if r.sandbox, err = New().Open(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.sandbox.Close(context.Background()) })
	return r
}

// sh runs a script and gives what it writes to both streams, and its status.
func (r *real) sh(script string) (string, shared.ExitStatus) {
	r.t.Helper()
	out, w, err := os.Pipe()
	if err != nil {
		r.t.Fatal(err)
	}
	defer out.Close()
	process, err := r.sandbox.Start(r.t.Context(), shared.Command{
		Args: []string{"/bin/sh", "-c", script}, Dir: r.ws, Env: []string{"HOME=" + r.home, "PATH=/usr/bin:/bin:/usr/sbin:/sbin"},
		Timeout: time.Minute,
	}, shared.Stdio{Stdout: w, Stderr: w})
	w.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := io.ReadAll(out)
	if err != nil {
		r.t.Fatal(err)
	}
	result, err := process.Wait(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text), result.Status
}

func (r *real) expect(works bool, scripts ...string) {
	r.t.Helper()
	for _, script := range scripts {
		if out, status := r.sh(script); status.Success() != works {
			r.t.Errorf("%s: %v, want success to be %v\n%s", script, status, works, out)
		}
	}
}

func TestRealFiles(t *testing.T) {
	t.Parallel()
	r := openReal(t, nil)
	r.expect(true, // controls
		"cat open && echo x >new && mv new renamed && rm renamed && mkdir -p a/b && ls . && pwd -P", "test \"$TMPDIR\" && echo x >\"$TMPDIR/x\"",
		"echo x >\"$HOME/.rc\" && cat \"$HOME/.rc\"", "head -c 4 /dev/urandom >/dev/null", "cat /etc/hosts >/dev/null", "id -un", "date", "cat /System/Volumes/Data"+r.ws+"/open")
	r.expect(false,
		"cat "+r.outsider, "cat /System/Volumes/Data"+r.outsider, "ls "+r.home, "cat "+r.home+"/.ssh-key", "cat deep/.env", "cat deep/.ENV", "cat deep/x/../.env",
		"ln -s deep/.env l && cat l", "ln deep/.env hard", "cp -c deep/.env clone", "mv deep/.env open2", "stat deep/.env",
		"mv deep moved && cat moved/.env", "mv deep \"$TMPDIR/moved\" && cat \"$TMPDIR/moved/.env\"", "mv .git g", "mv .git/hooks h", "echo x >.git/hooks/pre-commit",
		"echo x >.envrc", "echo x >.ENVRC", "mv . ../gone", "echo x >"+r.outsider, "echo x >/tmp/sbxhost-probe", "chmod u+s open",
		"echo x >"+r.home+"/Library/LaunchAgents/x.plist", "echo x >/usr/local/bin/sbxhost-probe")
}

func TestRealViewOfTheHost(t *testing.T) {
	t.Parallel()
	r := openReal(t, func(s *shared.Spec) { s.Filesystem = shared.FilesystemHost })
	r.expect(true, "cat open", "ls /Library >/dev/null", "ls /private/var/db >/dev/null")
	r.expect(false, "cat "+r.home+"/.ssh-key", "ls /private/tmp", "cat deep/.env", "cat /dev/ttys000 </dev/null", "echo x >"+r.outsider)
}

func TestRealReadOnly(t *testing.T) {
	t.Parallel()
	r := openReal(t, func(s *shared.Spec) { s.Table[0].Access = shared.ReadOnly })
	r.expect(true, "cat open")
	r.expect(false, "echo x >new", "rm open", "mkdir d", "touch open")
}

// The services by which programs get others to act for them.
func TestRealServices(t *testing.T) {
	t.Parallel()
	r := openReal(t, nil)
	r.expect(false,
		"open -a Calculator", "osascript -e 'tell application \"Finder\" to get name of home'", "launchctl print gui/$(id -u)", "launchctl submit -l sbxhost.probe -- /usr/bin/true",
		"security find-generic-password -s sbxhost-probe", "security list-keychains | grep login", "echo x | pbcopy", "defaults write sbxhost.probe a b",
		"/usr/bin/sandbox-exec -p '(version 1)(allow default)' /usr/bin/true", "sysctl -w kern.hostname=x", "crontab -l", "kill -0 1", fmt.Sprintf("kill -0 %d", os.Getpid()))
	r.expect(true, "sleep 10 & kill $!", "/usr/bin/true")
}

func TestRealNetwork(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	connect := "nc -z -w 5 127.0.0.1 " + port
	openReal(t, nil).expect(false, connect, "nc -z -w 5 localhost "+port, "nc -z -u -w 1 127.0.0.1 53 && false")
	openReal(t, func(s *shared.Spec) { s.Network.Mode = shared.NetworkHost }).expect(true, connect)
}

func TestRealEnds(t *testing.T) {
	t.Parallel()
	r := openReal(t, nil)
	for script, want := range map[string]int{"exit 0": 0, "exit 65": 65, "exit 71": 71, "exit 255": 255, "kill -TERM $$": 143} {
		if out, status := r.sh(script); status.Shell() != want {
			t.Errorf("%s: %v\n%s", script, status, out)
		}
	}
	if _, err := r.sandbox.Start(t.Context(), shared.Command{Args: []string{"no-such-program"}, Dir: r.ws, Env: []string{"PATH=/usr/bin:/bin"}}, shared.Stdio{}); !errors.Is(err, shared.ErrNotFound) {
		t.Errorf("a missing program: %v", err)
	}
}

// Developers' tools work without the network and without the home.
func TestRealTools(t *testing.T) {
	t.Parallel()
	r := openReal(t, nil)
	for _, tool := range []struct{ program, script string }{
		{"/usr/bin/git", "git init -q repo && cd repo && echo x >f && git add f && git -c user.name=a -c user.email=a@b commit -qm x && git status --short"},
		{"/usr/bin/python3", "python3 -c 'import multiprocessing as m, tempfile, ssl; m.Lock(); tempfile.TemporaryFile()'"},
		{"/usr/bin/cc", "printf 'int main(void){return 0;}' >x.c && cc -o x x.c && ./x"},
		{"/usr/bin/script", "script -q /dev/null /usr/bin/true </dev/null"},
		{"/bin/zsh", "zsh -c 'print -l *(N) >/dev/null; cat =(echo x) <(echo y)'"},
	} {
		if _, err := os.Stat(tool.program); err == nil {
			r.expect(true, tool.script)
		}
	}
}

var known = func() map[string]string {
	all := maps.Clone(departures)
	maps.Copy(all, brokenRules)
	return all
}()

// What the kit demands of every engine: the contract, and the probes, those for
// macOS among them, but for the departures, which must be found too.
func TestRealConformance(t *testing.T) {
	t.Parallel()
	needSeatbelt(t)
	enginetest.Run(t, New(), enginetest.Options{Known: known})
}

// The same in sessions, whose directory is where TMPDIR lies.
func TestRealConformanceInSessions(t *testing.T) {
	t.Parallel()
	needSeatbelt(t)
	enginetest.Run(t, New(), enginetest.Options{Session: true, Known: known})
}
