package host_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// A Host that has run commands in a review can open it itself, once none runs, and go on with it.
func TestReview(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	in := func(script string) *host.Cmd {
		cmd := h.Command(t.Context(), "fast", "sh", "-c", script)
		cmd.Review = "lib"
		return cmd
	}
	cmd := in("echo one >made; echo started; cat")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, 7))
	must(t, err)
	if _, err := h.OpenReview(t.Context(), "lib"); !errors.Is(err, host.ErrReviewInUse) {
		t.Errorf("while a command of it runs: %v", err)
	}
	must(t, stdin.Close())
	must(t, cmd.Wait())
	if report := cmd.Report(); report.Review != "lib" || len(report.Overlays) != 0 {
		t.Errorf("%+v", report)
	}
	must(t, in("test -e made && echo two >>made").Run())
	made := filepath.Join(h.Root(), "made")
	if _, err := os.Lstat(made); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in the workspace: %v", err)
	}
	r, err := h.OpenReview(t.Context(), "lib")
	must(t, err)
	set, err := r.Changes(t.Context())
	must(t, err)
	if len(set.Changes) != 1 || set.Shown(&set.Changes[0]) != "made" {
		t.Errorf("%+v", set.Changes)
	}
	out, err := r.Apply(t.Context(), set, host.ReviewChoice{Digest: set.Digest})
	must(t, err)
	r.Close()
	if text, err := os.ReadFile(made); err != nil || string(text) != "one\ntwo\n" || !out.Whole {
		t.Errorf("%q, %v, %+v", text, err, out)
	}
	// The next of that name begins anew, on what there is now.
	must(t, in("grep two made && rm made").Run())
	r, err = h.OpenReview(t.Context(), "lib")
	must(t, err)
	must(t, r.Discard(t.Context()))
	r.Close()
	if _, err := os.Lstat(made); err != nil {
		t.Error(err)
	}
	if list, err := h.Reviews(); err != nil || len(list) != 1 || !list[0].Whole {
		t.Errorf("%+v, %v", list, err)
	}
	name, _, err := h.UndoReview(t.Context())
	if _, there := os.Lstat(made); err != nil || name != "lib" || there == nil {
		t.Errorf("%q, %v, %v", name, err, there)
	}
	discardReviews(t, h)
}

// discardReviews leaves nothing of them: a user's tests cannot remove what overlays have made.
func discardReviews(t *testing.T, h *host.Host) {
	t.Helper()
	list, err := h.Reviews()
	must(t, err)
	for _, one := range list {
		r, err := h.OpenReview(t.Context(), one.Name)
		must(t, err)
		must(t, r.Discard(t.Context()))
		r.Close()
	}
	if list, err = h.Reviews(); err != nil || len(list) > 0 {
		t.Errorf("discarded, there are %+v, %v", list, err)
	}
}

// A definition can ask for a review; an engine that keeps none refuses it by the attribute.
func TestReviewOfADefinition(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *host.Options) {
		o.Sandboxes = map[string]host.Definition{"each": {Engine: "native", Review: host.NewReview}, "none": {Engine: "noop", Review: host.NewReview}}
	})
	names := map[string]bool{}
	for range 2 {
		cmd := h.Command(t.Context(), "each", "sh", "-c", "test ! -e made && touch made")
		must(t, cmd.Run())
		names[cmd.Report().Review] = true
	}
	if list, err := h.Reviews(); err != nil || len(list) != 2 || len(names) != 2 || names[""] {
		t.Errorf("%+v, %v, %v", list, names, err)
	}
	discardReviews(t, h)
	e, _ := errors.AsType[*shared.Error](h.Command(t.Context(), "none", "true").Run())
	if e == nil || e.Kind != shared.ErrUnsupported || e.Attribute != "review" {
		t.Errorf("%+v", e)
	}
}
