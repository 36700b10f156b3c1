package docker

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/kept"
	"github.com/sbxhost/sbxhost/shared"
)

// session is a named one of a test. Its containers are gone with it.
func session(t *testing.T) shared.Session {
	t.Helper()
	dir := t.TempDir()
	s := shared.Session{ID: "of-" + dir, Dir: dir, Named: true}
	t.Cleanup(func() {
		gone := ends(t, ofSession(t, s)...)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		gone()
	})
	return s
}

// ofSession lists the containers of a session.
func ofSession(t *testing.T, s shared.Session) (ids []string) {
	t.Helper()
	list, err := daemonFor(t).Client.ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", kept.SessionLabel)})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list.Items {
		if strings.HasPrefix(c.Labels[kept.SessionLabel], s.ID+"/") {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// ends gives what waits until containers are gone.
func ends(t *testing.T, ids ...string) func() {
	t.Helper()
	var waits []client.ContainerWaitResult
	for _, id := range ids {
		waits = append(waits, daemonFor(t).Client.ContainerWait(context.Background(), id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved}))
	}
	return func() {
		t.Helper()
		for i, w := range waits {
			select {
			case <-w.Result:
			case err := <-w.Error:
				if !strings.Contains(err.Error(), ids[i]) && !strings.Contains(strings.ToLower(err.Error()), "no such container") {
					t.Errorf("waiting for a container to be removed: %v", err)
				}
			}
		}
	}
}

// invoke runs a script as a command line does, which has an engine of its own.
func invoke(t *testing.T, spec shared.Spec, text string) outcome {
	t.Helper()
	s, err := newEngine(t).Open(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	return runCommand(t, s, script(text), "")
}

func TestReuseLastsForSession(t *testing.T) {
	t.Parallel()
	ws := dir(t, "secret", "other/f")
	spec := shared.Spec{Sandbox: "full", Session: session(t), Options: rawOptions(t, opts{"reuse": true}),
		Table: []shared.Entry{{Source: ws, Path: "/w", Access: shared.ReadWrite, Why: "workspace"}}}
	one := func() string {
		t.Helper()
		ids := ofSession(t, spec.Session)
		if len(ids) != 1 {
			t.Fatalf("containers: %q", ids)
		}
		return ids[0]
	}
	if out := invoke(t, spec, "echo kept > /tmp/f; setsid sleep 1000 & exit 3"); out.Status.Code != 3 {
		t.Fatalf("got %+v", out)
	}
	first := one()
	out := invoke(t, spec, "cat /tmp/f; cat /proc/[0-9]*/comm | grep -c sleep")
	if out.stdout != "kept\n0\n" || one() != first {
		t.Errorf("the next invocation: %+v", out)
	}
	// Another definition has its own.
	elsewhere := spec
	elsewhere.Sandbox = "other"
	if out := invoke(t, elsewhere, "ls -A /tmp"); out.stdout != "" {
		t.Errorf("another definition: %+v", out)
	}
	gone := ends(t, first)
	spec.Table = append(spec.Table, hideAll("/w/secret")...)
	if out := invoke(t, spec, "cat /w/secret; ls -A /tmp; echo masked > /tmp/f"); out.stdout != "" {
		t.Errorf("with something hidden: %+v", out)
	}
	gone()
	for name, change := range map[string]func(*shared.Spec){
		"another limit": func(s *shared.Spec) { s.Limits.OpenFiles, s.Limits.TempSize = 100, 64<<20 },
		"another bind": func(s *shared.Spec) {
			s.Table = append(slices.Clone(s.Table), shared.Entry{Source: ws + "/other", Path: "/o", Why: "bind_paths[0]", Access: shared.ReadOnly})
		},
	} {
		changed := spec
		change(&changed)
		if out := invoke(t, changed, "ls -A /tmp; echo x > /tmp/f"); out.stdout != "" {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestReuseSeesReplacedBind(t *testing.T) {
	t.Parallel()
	ws := dir(t, "bound/old")
	spec := shared.Spec{Session: session(t), Options: rawOptions(t, opts{"reuse": true}),
		Table: []shared.Entry{{Source: ws + "/bound", Path: "/b", Why: "bind_paths[0]", Access: shared.ReadOnly}}}
	if out := invoke(t, spec, "ls /b"); out.stdout != "old\n" {
		t.Fatalf("got %+v", out)
	}
	if err := os.Rename(ws+"/bound", ws+"/moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(ws+"/bound", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ws+"/bound/new", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if out := invoke(t, spec, "ls /b"); out.stdout != "new\n" {
		t.Errorf("got %+v", out)
	}
}

// TestReuseSessionRemoved removes a session, as `sbxhost sessions rm` does, with no
// engine about.
func TestReuseSessionRemoved(t *testing.T) {
	t.Parallel()
	s := session(t)
	invoke(t, shared.Spec{Session: s, Options: rawOptions(t, opts{"reuse": true})}, "true")
	ids := ofSession(t, s)
	if len(ids) != 1 {
		t.Fatalf("containers: %q", ids)
	}
	gone := ends(t, ids...)
	if err := os.RemoveAll(s.Dir); err != nil {
		t.Fatal(err)
	}
	gone()
}

// TestReuseSessionAtOnce has two engines use one container.
func TestReuseSessionAtOnce(t *testing.T) {
	t.Parallel()
	spec := shared.Spec{Session: session(t), Options: rawOptions(t, opts{"reuse": true})}
	a, b := open(t, spec), open(t, spec)
	p, r := started(t, a, script("echo ready; while [ ! -e /tmp/go ]; do sleep 0.01; done; echo went; exit 5"))
	if out := sh(t, b, "echo > /tmp/go; exit 4"); out.Status.Code != 4 {
		t.Errorf("got %+v", out)
	}
	if got := readLine(t, r); got != "went" {
		t.Errorf("got %q", got)
	}
	if result := wait(t, p); result.Status.Code != 5 {
		t.Errorf("got %+v", result)
	}
	if ids := ofSession(t, spec.Session); len(ids) != 1 {
		t.Errorf("containers: %q", ids)
	}
}

// TestReuseSessionClientKilled kills an engine with a command that tries to stay:
// the command ends, and the container is there for the next.
func TestReuseSessionClientKilled(t *testing.T) {
	t.Parallel()
	d, s := daemonFor(t), session(t)
	init, err := initDir()
	if err != nil {
		t.Fatal(err)
	}
	options := rawOptions(t, opts{"reuse": true})
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), crashEnv+"=unix://"+d.Socket+"\n"+init+"\n"+string(options)+"\n"+s.Dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	before := ofSession(t, s)
	if line != "started <nil>\n" || len(before) != 1 {
		t.Fatalf("%q, containers: %q", line, before)
	}
	// The command's init notices by itself; the loop waits for that.
	got := invoke(t, shared.Spec{Session: s, Options: options},
		"i=0; while grep -q sleep /proc/[0-9]*/comm 2>/dev/null && [ $i -lt 500 ]; do i=$((i+1)); done; cat /proc/[0-9]*/comm | grep -c sleep")
	if after := ofSession(t, s); got.stdout != "0\n" || len(after) != 1 || after[0] != before[0] {
		t.Errorf("got %+v, containers %q, then %q", got, before, after)
	}
}

// TestReuseOfOthers does not last: for another user's commands, or without a name.
func TestReuseOfOthers(t *testing.T) {
	t.Parallel()
	named := session(t)
	unnamed := named
	unnamed.Named = false
	user, _ := them()
	for name, spec := range map[string]shared.Spec{"unnamed": {Session: unnamed}, "another user": {Session: named, User: &user}} {
		spec.Options = rawOptions(t, opts{"reuse": true, "image": dockerd.Image})
		invoke(t, spec, "true")
		if ids := ofSession(t, named); len(ids) != 0 {
			t.Errorf("%s: %q", name, ids)
		}
	}
}

// TestReuseHoldsWhatIsReplaced has the host save files as editors and git do, by
// putting another in their place: what hid or protected the old one is on that
// one, in the container that there is.
func TestReuseHoldsWhatIsReplaced(t *testing.T) {
	t.Parallel()
	for name, sess := range map[string]func(*testing.T) shared.Session{
		"one sandbox": func(*testing.T) shared.Session { return shared.Session{} }, "a session": session} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ws := dir(t, "sub/secret", "config")
			save := func(file, text string) {
				t.Helper()
				if err := os.WriteFile(ws+"/next", []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(ws+"/next", ws+"/"+file); err != nil {
					t.Fatal(err)
				}
			}
			relink := func(file string) {
				t.Helper()
				path, aside := ws+"/"+file, ws+"/aside"
				if err := errors.Join(os.Link(path, aside), os.Remove(path), os.Link(aside, path), os.Remove(aside)); err != nil {
					t.Fatal(err)
				}
			}
			const hidden = "/w/sub/secret"
			s := open(t, shared.Spec{Session: sess(t), Options: rawOptions(t, opts{"reuse": true}), Table: []shared.Entry{
				{Source: ws, Path: "/w", Access: shared.ReadWrite, Why: "workspace"},
				{Source: ws + "/config", Path: "/w/config", Why: "protected", Access: shared.ReadOnly},
				hideAll(hidden)[0],
			}})
			cmd := script("cat " + hidden + "; cat /w/config; (echo x > /w/config) 2> /dev/null || echo held; echo in >> /tmp/count; wc -l < /tmp/count")
			replaced := func(out outcome) bool {
				return slices.ContainsFunc(out.events, func(e shared.Event) bool { return strings.Contains(e.Message, "was replaced") })
			}
			for i, tt := range []struct {
				file, text, want string
				replaced         bool
			}{
				{"config", "1\n", "1\nheld\n1\n", false},
				{"", "", "1\nheld\n2\n", false},
				{"config", "2\n", "2\nheld\n1\n", true},
				{"sub/secret", "secret\n", "2\nheld\n1\n", true},
				{"", "", "2\nheld\n2\n", false},
				// The same file by another name, after what was mounted on the old one went.
				{"config", "", "2\nheld\n1\n", true},
				{"sub/secret", "", "2\nheld\n1\n", true},
				{"", "", "2\nheld\n2\n", false},
			} {
				switch {
				case tt.file == "":
				case tt.text == "":
					relink(tt.file)
				default:
					save(tt.file, tt.text)
				}
				if out := runCommand(t, s, cmd, ""); out.stdout != tt.want || replaced(out) != tt.replaced {
					t.Errorf("%d: %+v", i, out)
				}
			}
		})
	}
}
