package docker

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// TestStranger has somebody else connect to the socket where the engine awaits a container's init, as a
// command of another sandbox could that sees the directory around it.
func TestStranger(t *testing.T) {
	t.Parallel()
	base := dir(t)
	if err := os.Chmod(base, 0o755); err != nil { // where others can rename, no socket is made
		t.Fatal(err)
	}
	var stranger net.Conn
	e := atStart(t, func() error {
		sockets, err := filepath.Glob(base + "/*/line/s")
		if err != nil || len(sockets) != 1 {
			return errors.Join(err, errors.New("one socket is expected"))
		}
		stranger, err = net.Dial("unix", sockets[0])
		return err
	}, func() error { return nil })
	getenv := e.surroundings.Getenv
	e.surroundings.Getenv = func(name string) string {
		if name == "TMPDIR" {
			return base
		}
		return getenv(name)
	}
	sandbox, err := e.Open(t.Context(), shared.Spec{Options: rawOptions(t, opts{})})
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(context.Background())
	if out := sh(t, sandbox, "echo real"); out.stdout != "real\n" {
		t.Errorf("got %+v", out)
	}
	defer stranger.Close()
	stranger.SetDeadline(time.Now().Add(10 * time.Second))
	if got, err := io.ReadAll(stranger); err != nil || len(got) != 0 {
		t.Errorf("the stranger gets %q, %v", got, err)
	}
}
