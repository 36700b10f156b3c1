package bwrap

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/plugins/internal/inside"
	"github.com/sbxhost/sbxhost/shared"
)

// engineArg makes the test binary an engine's process.
const engineArg = "engine-for-test"

// engineMain runs a command that does not end, and says when it has started.
func engineMain() int {
	ctx := context.Background()
	sandbox, err := New().Open(ctx, shared.Spec{})
	if err == nil {
		_, err = sandbox.Start(ctx, shared.Command{Args: []string{"/bin/sh", "-c", "echo up; trap '' TERM HUP; setsid sleep 1000 & exec sleep 1000"}, Dir: "/", Env: inside.Env}, shared.Stdio{Stdout: os.Stdout})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	select {}
}

// An engine that is killed, at whatever moment, takes its launcher, the init and the
// command with it. What it leaves of a launcher that was just being born is found.
func TestEngineIsKilledAtEveryMoment(t *testing.T) {
	t.Parallel()
	needBwrap(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	up := 0
	// On a busy machine nothing has begun to run by then.
	for delay, step := time.Duration(0), 1700*time.Microsecond; delay < 60*time.Millisecond || up == 0; delay += step {
		if delay > 60*time.Millisecond {
			step = delay
		}
		if delay > time.Minute {
			t.Fatal("no command ran: that tried less than it should")
		}
		r, w := inside.Pipe(t)
		cmd := exec.Command(self, engineArg)
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		<-time.After(delay) // the moment is what is tried
		cmd.Process.Kill()
		cmd.Wait()
		sandboxinit.KillOrphans(time.Second) // as the host does
		r.SetReadDeadline(time.Now().Add(time.Minute))
		out, err := io.ReadAll(r)
		if err != nil {
			t.Fatalf("after %v something lives on: %v, %q", delay, err, out)
		}
		if string(out) == "up\n" {
			up++
		} else if len(out) > 0 {
			t.Errorf("%q", out)
		}
	}
}
