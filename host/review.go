//go:build unix

package host

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/sandbox"
)

// Reviews lists the reviews of the workspace, sorted by name. Complete marks those whose last apply
// applied everything and can be undone. InUse marks those that this Host has used, and those that
// other processes use. OpenReview can open one that this Host has used, if no command uses it.
func (h *Host) Reviews() ([]ReviewInfo, error) { return h.pool.ReviewStore().List() }

// A Review is what commands wrote to the workspace and nobody has applied yet. While it is open, no
// command can use it. Apply writes chosen changes to the workspace, all or none; Discard removes the
// review with everything in it; Close lets others use it.
//
//	func (r *Review) Apply(ctx context.Context, set *Set, choice Choice) (*Outcome, error)
//	func (r *Review) Export(ctx context.Context, set *Set, only []string) (dirs []string, left []Change, done func(), err error)
//	func (r *Review) Add(ctx context.Context, source, upper, lock string, gitDirs ...string) error
//	func (r *Review) Sandbox() string
//	func (r *Review) Dir() string
//	func (r *Review) Sources() (list []string)
//	func (r *Review) Close()
//	func (r *Review) Discard(ctx context.Context) error
type Review struct {
	host *Host
	*review.Review
}

// OpenReview opens a review. It returns ErrReviewInUse while a process, or a command of this Host,
// uses it, and fs.ErrNotExist if there is none.
func (h *Host) OpenReview(ctx context.Context, name string) (*Review, error) {
	one, err := h.pool.OpenReview(ctx, name)
	if err != nil {
		return nil, err
	}
	return &Review{host: h, Review: one}, nil
}

// reviewTarget is the sandbox of the review's first command, or the default one.
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

// Changes lists the differences. It marks as refused what a definition hides or protects.
func (r *Review) Changes(ctx context.Context) (*ReviewSet, error) {
	t, err := r.host.reviewTarget(r.Review)
	if err == nil {
		err = r.host.checkDefinition(t.Name, t.Definition)
	}
	if err != nil {
		return nil, err
	}
	return r.host.pool.Changes(ctx, r.Review, t)
}

// UndoReview undoes the last apply, and returns the review's name. If somebody has changed one of its
// files since, it changes nothing, and lists those files with the error. Without an error, changed
// says what it could not take back.
func (h *Host) UndoReview(ctx context.Context) (name string, changed []string, err error) {
	return h.pool.ReviewStore().Undo(ctx)
}

// Diff writes a git patch of the changes in the given paths, or of all changes without paths, and
// returns the changes that a patch cannot show. The patch has raw contents of files: escape it for
// a terminal. The error is ErrNoProgram if there is no git that can be trusted.
func (r *Review) Diff(ctx context.Context, w io.Writer, set *ReviewSet, only []string) (left []ReviewChange, err error) {
	git, _, err := r.host.machine.Programs().Find("git")
	if err != nil {
		return nil, err
	}
	dirs, left, done, err := r.Export(ctx, set, only)
	if err != nil {
		return nil, err
	}
	defer done()
	for _, dir := range dirs {
		slash := ""
		if layer, _ := strconv.Atoi(filepath.Base(dir)); !paths.Inside(r.host.Root(), r.Sources()[layer]) {
			slash = "//" // of an absolute path: the workspace can have files at the same path without it
		}
		cmd := git.Command(ctx, "--no-pager", "diff", "--no-index", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--no-prefix", "--", "a"+slash, "b"+slash)
		// No repository, and no configuration: both can name programs, and attributes of the files
		// can hide their contents.
		cmd.Env = append(cmd.Env, "LC_ALL=C", "GIT_DIR=/dev/null", "GIT_CEILING_DIRECTORIES=/", "GIT_ATTR_NOSYSTEM=1",
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null")
		var stderr bytes.Buffer
		out := bufio.NewWriter(w) // it keeps w's error, which cmd drops for that of git
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, &stderr
		const differs = 1
		err := cmd.Run()
		if failed := out.Flush(); failed != nil {
			return nil, failed
		}
		if err != nil && cmd.ProcessState.ExitCode() != differs {
			return nil, fmt.Errorf("git diff: %w: %.1000s", err, stderr.Bytes())
		}
	}
	return left, nil
}
