package cmdengine

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// What an engine makes for a command lasts from before its start to after its
// end, and no longer where it has not started.
func TestBegunAndEnded(t *testing.T) {
	t.Parallel()
	c := config(direct)
	ended := make(chan *exec.Cmd, 10)
	launch := c.Launch
	var last *exec.Cmd
	c.Attach = func(_ context.Context, spec *shared.Spec) (*Attachment, error) {
		return &Attachment{Launch: func(cmd *shared.Command) (*Launch, error) {
			launched, err := launch(spec, cmd)
			last = launched
			var emit func(shared.Event)
			return &Launch{
				Cmd: launched,
				Begun: func(to func(shared.Event)) {
					emit = to
					emit(shared.Event{Kind: shared.EventProgress, Message: "begun"})
				},
				Ended: func() {
					emit(shared.Event{Kind: shared.EventProgress, Message: "ended"})
					ended <- launched
				},
			}, err
		}}, nil
	}
	sandbox := open(t, c, specFor(direct))
	process, err := sandbox.Start(t.Context(), sh("exit 3"), shared.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	result, err := process.Wait(t.Context())
	if err != nil || result.Status.Code != 3 {
		t.Fatalf("%+v, %v", result, err)
	}
	select {
	case launched := <-ended:
		if launched != last {
			t.Error("another command has ended")
		}
	default:
		t.Error("Wait returns before Ended")
	}
	var told []string
	for e := range process.Events() {
		told = append(told, e.Message)
	}
	if len(told) != 2 || told[0] != "begun" || told[1] != "ended" {
		t.Errorf("events %q", told)
	}

	bad := sh("true")
	bad.Dir = t.TempDir() + "/none"
	if _, err := sandbox.Start(t.Context(), bad, shared.Stdio{}); !errors.Is(err, shared.ErrInvalidSpec) {
		t.Fatal(err)
	}
	if launched := <-ended; launched != last {
		t.Error("another start was ended")
	}

	_, err = sandbox.Start(t.Context(), sh("sleep 1000"), shared.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	if err := sandbox.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("a closed sandbox leaves something")
	}
}

// The engine cleans up also if nobody knows how the command ended.
func TestEndedWithoutAnEnd(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	ended := false
	run := &directRun{process: cmd.Process, ended: func() { ended = true }}
	if _, err := run.Wait(); !errors.Is(err, shared.ErrBroken) || !ended {
		t.Errorf("%v, ended: %v", err, ended)
	}
}
