package native

import (
	"errors"
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

// A command cannot join processes that ended with their holder. It must not wait for the end of
// the holder that replaced that one.
func TestJoinAfterTheHolderDied(t *testing.T) {
	t.Parallel()
	e := need(t).(*engine)
	spec := sessionSpec(t)
	spec.Session.Processes = true
	a, err := e.attach(t.Context(), &spec)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	l, err := a.Launch(t.Context(), &shared.Command{})
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	exe, err := sandboxinit.Binary{Self: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer exe.Close()
	ours, theirs, err := sandboxinit.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	words, files := sandboxinit.Argv(3, 4), []*os.File{null, null, null, exe, theirs}
	spawn, _ := l.Shared(nil, func(shared.Event) {})
	first, err := spawn(t.Context(), "", words, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	first.(*process).client.Close()
	first.Wait()
	spawn, _ = l.Shared(first, nil)
	if _, err = spawn(t.Context(), "", words, files, nil); !errors.Is(err, shared.ErrBroken) {
		t.Errorf("%v", err)
	}
}
