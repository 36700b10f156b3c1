//go:build unix

package host

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/sbxhost/sbxhost/host/sandbox"
	"github.com/sbxhost/sbxhost/review"
)

// Reviews lists the reviews of the workspace, by name: those that were applied as a whole, and can be
// taken back, are Whole.
func (h *Host) Reviews() ([]ReviewInfo, error) { return h.pool.Shelf().List() }

// A Review is what commands wrote to the workspace and that has not come there yet. While it is
// open, no command can use it.
type Review struct {
	host *Host
	*review.Review
}

// OpenReview opens a review that no process uses. It is ErrReviewInUse while one does, of this Host's
// commands as well, and fs.ErrNotExist if there is none.
func (h *Host) OpenReview(ctx context.Context, name string) (*Review, error) {
	one, err := h.pool.OpenReview(ctx, name, h.reviewTarget)
	if err != nil {
		return nil, err
	}
	return &Review{host: h, Review: one}, nil
}

// reviewTarget is the sandbox that the review's first command had, or the default one.
func (h *Host) reviewTarget(r *review.Review) (sandbox.Target, error) {
	t, err := h.target(r.Sandbox())
	if errors.Is(err, ErrUnknownSandbox) {
		t, err = h.target("")
	}
	if errors.Is(err, ErrUnknownSandbox) {
		return sandbox.Target{Name: "default"}, nil
	}
	return t, err
}

// Changes says what is different. What a definition hides or protects is refused.
func (r *Review) Changes(ctx context.Context) (*ReviewSet, error) {
	t, err := r.host.reviewTarget(r.Review)
	if err != nil {
		return nil, err
	}
	return r.host.pool.Changes(ctx, r.Review, t)
}

// UndoReview takes the last apply back, as long as nothing of what it changed was changed
// since: what was is listed.
func (h *Host) UndoReview(ctx context.Context) (name string, changed []string, err error) {
	return h.pool.Shelf().Undo(ctx)
}

// Diff prepares commands of git, by its program, that write what changes in the paths only or,
// without them, in all: one for each directory that changes, since what lies in one is never to be followed
// into another. It gives the changes that they leave out. Of the files' own attributes nothing is run. A
// command exits with 1 where there are differences. Done is called when all have ended.
func (r *Review) Diff(ctx context.Context, git string, environ []string, set *ReviewSet, only []string) (cmds []*exec.Cmd, left []ReviewChange, done func(), err error) {
	dirs, left, done, err := r.Export(ctx, set, only)
	if err != nil {
		return nil, nil, nil, err
	}
	for _, dir := range dirs {
		cmd := exec.CommandContext(ctx, git, "diff", "--no-index", "--no-ext-diff", "--no-textconv", "--no-prefix", "--", "a", "b")
		cmd.Dir = dir
		cmd.Env = append(slices.Clone(environ), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_ATTR_NOSYSTEM=1", "PWD="+dir)
		cmds = append(cmds, cmd)
	}
	return cmds, left, done, nil
}
