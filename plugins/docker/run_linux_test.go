package docker

import (
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/test/dockerd"
)

func TestFresh(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{})
	out := sh(t, s, "echo out; echo err >&2; exit 7")
	if out.Status.Code != 7 || out.stdout != "out\n" || out.stderr != "err\n" {
		t.Errorf("got %+v", out)
	}
}

func TestScratch(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{"image": dockerd.BareImage})})
	out := runCommand(t, s, shared.Command{Args: []string{"/busybox", "cat"}, Dir: "/"}, "through")
	if !out.Status.Success() || out.stdout != "through" {
		t.Errorf("got %+v", out)
	}
}

func TestReused(t *testing.T) {
	t.Parallel()
	s := open(t, shared.Spec{Options: rawOptions(t, opts{"reuse": true})})
	if out := sh(t, s, "echo kept > /tmp/f; sleep 1000 & exit 3"); out.Status.Code != 3 {
		t.Errorf("got %+v", out)
	}
	if out := sh(t, s, "cat /tmp/f; ps"); out.stdout != "kept\n" {
		t.Errorf("got %+v", out)
	}
}
