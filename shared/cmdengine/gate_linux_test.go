package cmdengine

import (
	"context"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// gated is an engine whose launcher is a shell script, with a gate for each command.
func gated(t *testing.T, script string, gate func(*sandboxinit.Sockets) (Gate, error)) *sandbox {
	t.Helper()
	sb, _ := shellLauncher(t, script, func(c *Config) {
		c.Attach = func(context.Context, *shared.Spec) (*Attachment, error) {
			return &Attachment{Launch: func(*shared.Command) (*Launch, error) {
				return &Launch{Cmd: &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script, "launcher"}}, Gate: gate}, nil
			}}, nil
		}
	})
	return sb
}

// A testGate has its hearers told of its end.
type testGate struct {
	hearers []func(shared.Event)
	ended   func(emit func(shared.Event))
}

func (g *testGate) Hear(emit func(shared.Event), _ bool) (stop func()) {
	g.hearers = append(g.hearers, emit)
	return func() {}
}

func (g *testGate) Close() error {
	for _, emit := range g.hearers {
		g.ended(emit)
	}
	return nil
}

// recorded is what happens in several goroutines.
type recorded struct {
	mu   sync.Mutex
	list []string
}

func (r *recorded) add(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, what)
}

func (r *recorded) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// An init in a launcher makes sockets for a gate, which begins before the command and ends
// after it, and tells until then.
func TestGateInLauncher(t *testing.T) {
	t.Parallel()
	var order recorded
	sb := gated(t, `exec "$@"`, func(sockets *sandboxinit.Sockets) (Gate, error) {
		f, err := sockets.New(unix.AF_INET, unix.SOCK_STREAM)
		if err != nil {
			return nil, err
		}
		f.Close()
		order.add("begun")
		return &testGate{ended: func(emit func(shared.Event)) {
			order.add("ended")
			emit(shared.Event{Kind: shared.EventNetwork, Message: "last"})
		}}, nil
	})
	o := newOutput(t)
	p := start(t, sb, sh("echo runs; ls /proc/self/fd | wc -l"), o)
	order.add(o.line())
	if fds := o.line(); fds != "4" { // its three, and the directory
		t.Errorf("the command has %s descriptors", fds)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := false
	for e := range p.Events() {
		told = told || e.Message == "last"
	}
	if got := strings.Join(order.all(), " "); got != "begun runs ended" || !told {
		t.Errorf("%s, told %v", got, told)
	}
}

// A launcher that fails before there is an init is what an error is about, and not the
// sockets that there were none of.
func TestGateWithoutInit(t *testing.T) {
	t.Parallel()
	sb := gated(t, `echo "no luck today" >&2; exit 1`, func(sockets *sandboxinit.Sockets) (Gate, error) {
		_, err := sockets.New(unix.AF_INET, unix.SOCK_STREAM)
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "network", Message: err.Error()}
	})
	if _, err := sb.Start(t.Context(), sh("exit 0"), shared.Stdio{}); !errors.Is(err, shared.ErrUnavailable) || !strings.Contains(err.Error(), "no luck today") {
		t.Errorf("%v", err)
	}
	// One that cannot begin for another reason says so.
	sb = gated(t, `exec "$@"`, func(*sandboxinit.Sockets) (Gate, error) {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "publish[0]", Message: "taken"}
	})
	if _, err := sb.Start(t.Context(), sh("exit 0"), shared.Stdio{}); err == nil || err.Error() != "publish[0]: taken" {
		t.Errorf("%v", err)
	}
}
