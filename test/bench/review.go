package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/host"
)

const (
	directly      = "git on the workspace itself"
	firstOfReview = "git, first of a review"
	inReview      = "git in a review"
	newOverlay    = "git in a new overlay"
	benchReview   = "bench"
	gitStatus     = "git status --porcelain"
)

// measureReview tells what reviews cost: git status in one beside the same on the workspace
// itself, in the same definition, and what `sbxhost review` takes afterwards.
func measureReview(ctx context.Context, s *scene, o options, r *report) {
	rounds := min(o.rounds, 20)
	root := filepath.Join(s.dir, "reviewed")
	plant(root, o.files, func(i int) (string, string) { return fmt.Sprintf("%d/%d/%d", i/1000, i/100, i), fmt.Sprint(i) })
	s.commitAll(ctx, root)
	time.Sleep(settling)
	h := s.host(ctx, root, func(o *host.Options) { o.Sandboxes = map[string]host.Definition{sandboxFast: {Engine: "native"}} })
	run := func(review string) func() error {
		return func() error {
			var stderr bytes.Buffer
			cmd := h.Command(ctx, sandboxFast, "sh", "-c", gitStatus)
			cmd.Review, cmd.Stderr = review, &stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("%w: %.1000s", err, stderr.Bytes())
			}
			return nil
		}
	}
	// A review that is still used has its names listed after a while: not beside another's turn.
	discard := func() error {
		review, err := h.OpenReview(ctx, benchReview)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		defer review.Close()
		return review.Discard(ctx)
	}
	overlay := root + "-overlay"
	r.compare(ctx, gitStatus, []contender{
		{name: directly, prepare: discard, run: run("")},
		{name: firstOfReview, prepare: discard, run: run(benchReview)},
		{name: inReview, prepare: discard, run: run("later")},
		{name: newOverlay, prepare: func() error { return errors.Join(discard(), os.RemoveAll(overlay)) }, run: func() error {
			return s.run(exec.CommandContext(ctx, "unshare", "-Urm", "sh", "-ec", plainOverlay, "sh", root, overlay, gitStatus))
		}},
	}, rounds)
	r.near(inReview, directly, 1.3)
	r.near(firstOfReview, newOverlay, 1.1)
	s.carryOver(ctx, rounds, r)
}

// plainOverlay runs a command in an overlay that nothing was looked up in yet: what the kernel alone takes for
// that.
const plainOverlay = `mkdir -p "$2/upper" "$2/work" "$2/root"
mount -t overlay -o "userxattr,lowerdir=$1,upperdir=$2/upper,workdir=$2/work" overlay "$2/root"
cd "$2/root"
exec sh -c "$3"`

// carryOver has `sbxhost review` list and apply changes of each kind.
func (s *scene) carryOver(ctx context.Context, rounds int, r *report) {
	root := filepath.Join(s.dir, "changes")
	plant(root, 2000, func(i int) (string, string) { return fmt.Sprintf("%d/%d", i/20, i%20), strings.Repeat("text\n", 200) })
	sbxhost := func(args ...string) error {
		cmd := exec.CommandContext(ctx, s.lean, args...)
		cmd.Dir, cmd.Env = root, environ(s.dir)
		return s.run(cmd)
	}
	// In each directory 10 are changed, 5 made and 5 removed.
	const change = "for d in *; do cd $d; for f in ?; do echo more >>$f; done; for f in [0-4]; do echo new >new$f; done; rm 1[0-4]; cd ..; done"
	check(sbxhost("exec", "-quiet", "-config", s.config, "-sandbox", "native", "-review", benchReview, "--", "sh", "-ec", change))
	applied := false
	undo := func() error {
		if !applied {
			return nil
		}
		applied = false
		return sbxhost("review", "undo", "-config", s.config)
	}
	const list, apply = "list 2,000 changes", "apply 2,000 changes"
	r.compare(ctx, "Reviews", []contender{
		{name: list, prepare: undo, run: func() error { return sbxhost("review", "show", "-config", s.config, benchReview) }},
		{name: apply, prepare: undo, run: func() error {
			applied = true
			return sbxhost("review", "apply", "-config", s.config, "-yes", benchReview)
		}},
	}, rounds)
	r.atMost(list, r.medians[list], 500, "ms")
	r.atMost(apply, r.medians[apply], 500, "ms")
}
