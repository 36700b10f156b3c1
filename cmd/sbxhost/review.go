//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	iofs "io/fs"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/inforce"
)

// reviewed is one change as -json gives it.
type reviewed struct {
	Path     string `json:"path"`                  // relative to the workspace, or absolute
	Quoted   string `json:"path_quoted,omitempty"` // of a path that is no text, as Go writes it
	Op       string `json:"op"`                    // "added", "modified", "deleted" or "mode"
	Old      *side  `json:"old"`                   // null where the workspace has nothing
	New      *side  `json:"new"`                   // null where the review has nothing
	Refused  string `json:"refused"`               // why it cannot be applied; else empty
	Conflict string `json:"conflict"`              // what happened to it in the workspace since; else empty
	Merged   bool   `json:"merged"`                // of git's configuration or index, only what can be is taken over
}

type side struct {
	Type   string `json:"type"`
	Mode   string `json:"mode"`
	Size   int64  `json:"size"`
	Target string `json:"target,omitempty"`
}

// reviewResult is what a subcommand gives with -json.
type reviewResult struct {
	Name    string     `json:"name"`
	Digest  string     `json:"digest"`
	Changes []reviewed `json:"changes"`
}

// withHost registers -config and gives what runs f with a Host on the configuration in force.
func (a *app) withHost(fs *flag.FlagSet, f func(context.Context, *host.Host) error) func() error {
	config := configFlag(fs)
	return func() error {
		ctx := context.Background()
		s, err := a.load(ctx, *config)
		if err != nil {
			return a.hinted(nil, nil, err)
		}
		h, err := host.New(ctx, s.options)
		if err != nil {
			return a.hinted(s, &runFlags{}, err)
		}
		defer h.Close()
		return f(ctx, h)
	}
}

func (a *app) reviewList(fs *flag.FlagSet) func() error {
	asJSON := jsonFlag(fs)
	return a.withHost(fs, func(_ context.Context, h *host.Host) error {
		found, err := h.Reviews()
		if err != nil {
			return err
		}
		type listed struct {
			Name    string    `json:"name"`
			Sandbox string    `json:"sandbox"`
			Made    time.Time `json:"made"`
			InUse   bool      `json:"in_use"`
			Applied bool      `json:"applied"`
			Whole   bool      `json:"whole"`
		}
		list := []listed{}
		rows := [][]string{{"NAME", "SANDBOX", "BEGUN", "STATE"}}
		for _, r := range found {
			list = append(list, listed{r.Name, r.Sandbox, r.Made, r.InUse, r.Applied, r.Whole})
			state := "open"
			switch {
			case r.InUse:
				state = "in use"
			case r.Whole:
				state = "applied; review undo takes it back"
			case r.Applied:
				state = "applied in part"
			}
			rows = append(rows, []string{r.Name, r.Sandbox, inforce.Age(time.Since(r.Made)), state})
		}
		if len(list) == 0 && !*asJSON {
			a.say("there are no reviews of this workspace")
			return nil
		}
		return a.result(*asJSON, list, table("", rows))
	})
}

// withReview is withHost for one review, which the first argument names.
func (a *app) withReview(fs *flag.FlagSet, f func(context.Context, *host.Review, []string) error) func() error {
	var words []string
	run := a.withHost(fs, func(ctx context.Context, h *host.Host) error {
		name := words[0]
		r, err := h.OpenReview(ctx, name)
		if errors.Is(err, iofs.ErrNotExist) {
			return &hinted{fmt.Errorf("there is no review %q of %s", name, quote(h.Root())), "sbxhost review list shows those there are"}
		} else if err != nil {
			return err
		}
		defer r.Close()
		for _, line := range r.Recovered {
			a.say(line)
		}
		return f(ctx, r, words[1:])
	})
	return func() error {
		// Flags may follow the name, and the paths.
		for rest := fs.Args(); len(rest) > 0; rest = fs.Args() {
			words = append(words, rest[0])
			if err := fs.Parse(rest[1:]); err != nil {
				return usage(fs, err)
			}
		}
		if len(words) == 0 {
			return usage(fs, errors.New("name a review"))
		}
		return run()
	}
}

// isListed reports whether a path is one of a list, or lies in one; an empty list has all.
func isListed(list []string, p string) bool {
	for _, dir := range list {
		if dir = filepath.Clean(dir); dir == "." || p == dir || strings.HasPrefix(p, dir+"/") {
			return true
		}
	}
	return len(list) == 0
}

// reviewPath shows a path of a review.
func reviewPath(p string) string {
	if utf8.ValidString(p) && printable(p) == p && strconv.Quote(p) == `"`+p+`"` {
		return p
	}
	return strconv.QuoteToASCII(p)
}

func (a *app) reviewText(set *host.ReviewSet, only []string) string {
	var b strings.Builder
	for i := range set.Changes {
		c := &set.Changes[i]
		if shown := set.Shown(c); isListed(only, shown) {
			b.WriteString(c.Line(reviewPath(shown)))
			if c.Refused != "" {
				b.WriteString("; refused: " + printable(c.Refused))
			}
			if c.Conflict != "" {
				b.WriteString("; conflict: " + c.Conflict)
			}
			if c.Note != "" {
				b.WriteString("; " + printable(c.Note))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func newReviewResult(name string, set *host.ReviewSet, changes []host.ReviewChange, only []string) reviewResult {
	out := reviewResult{name, set.Digest, []reviewed{}}
	for i := range changes {
		c := &changes[i]
		shown := set.Shown(c)
		if !isListed(only, shown) {
			continue
		}
		one := reviewed{Path: shown, Op: c.Op.String(), Old: sideOf(&c.Old), New: sideOf(&c.New), Refused: c.Refused, Conflict: c.Conflict, Merged: c.Merge}
		if !utf8.ValidString(shown) {
			one.Quoted = strconv.QuoteToASCII(shown)
		}
		out.Changes = append(out.Changes, one)
	}
	return out
}

func sideOf(n *host.ReviewNode) *side {
	if n.Kind.String() == "nothing" {
		return nil
	}
	return &side{n.Kind.String(), fmt.Sprintf("%04o", n.Mode), n.Size, n.Target}
}

func (a *app) reviewShow(fs *flag.FlagSet) func() error {
	asJSON := jsonFlag(fs)
	return a.withReview(fs, func(ctx context.Context, r *host.Review, only []string) error {
		set, err := r.Changes(ctx)
		if err != nil {
			return err
		}
		if err := a.result(*asJSON, newReviewResult(r.Name, set, set.Changes, only), a.reviewText(set, only)); err != nil || *asJSON {
			return err
		}
		a.tellDigest(r.Name, set)
		return nil
	})
}

func (a *app) tellDigest(name string, set *host.ReviewSet) {
	if len(set.Changes) == 0 {
		a.say(fmt.Sprintf("review %q changes nothing", name))
		return
	}
	a.say(fmt.Sprintf("%s; to apply: sbxhost review apply -digest %s %s", plural(len(set.Changes), "change"), set.Digest, name))
}

func (a *app) reviewDiff(fs *flag.FlagSet) func() error {
	asJSON := jsonFlag(fs)
	return a.withReview(fs, func(ctx context.Context, r *host.Review, only []string) error {
		set, err := r.Changes(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return a.result(true, newReviewResult(r.Name, set, set.Changes, only), "")
		}
		if err := a.showDiff(ctx, r, set, only); err != nil {
			return err
		}
		a.tellDigest(r.Name, set)
		return nil
	})
}

// showDiff has git show what changes, and says the rest.
func (a *app) showDiff(ctx context.Context, r *host.Review, set *host.ReviewSet, only []string) error {
	git, err := exec.LookPath("git")
	if err != nil {
		a.say("without git there is no diff of contents")
		return a.print(a.reviewText(set, only))
	}
	cmd, left, done, err := r.Diff(ctx, git, a.environ, set, only)
	if err != nil {
		return err
	}
	defer done()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.stdin, a.stdout, a.stderr // the pager and the colours are the user's
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 1) {
		return fmt.Errorf("git diff: %w", err)
	}
	for i := range left {
		c := &left[i]
		a.say("not in the diff: " + c.Line(reviewPath(set.Shown(c))) + sizeOf(c))
	}
	for i := range set.Changes {
		c := &set.Changes[i]
		shown := set.Shown(c)
		if !isListed(only, shown) {
			continue
		}
		if c.Refused != "" {
			a.say(fmt.Sprintf("cannot be applied: %s: %s", reviewPath(shown), c.Refused))
		}
		if c.Conflict != "" {
			a.say(fmt.Sprintf("conflict: %s: %s", reviewPath(shown), c.Conflict))
		}
		if c.Note != "" {
			a.say(fmt.Sprintf("%s: %s", reviewPath(shown), c.Note))
		}
	}
	return nil
}

// sizeOf says how large the file of a change is, or was.
func sizeOf(c *host.ReviewChange) string {
	for _, n := range [...]*host.ReviewNode{&c.New, &c.Old} {
		if n.Kind.String() == "file" {
			return fmt.Sprintf(", %d bytes", n.Size)
		}
	}
	return ""
}

func (a *app) reviewApply(fs *flag.FlagSet) func() error {
	var choice host.ReviewChoice
	asJSON := jsonFlag(fs)
	yes := fs.Bool("yes", false, "")
	fs.StringVar(&choice.Digest, "digest", "", "")
	list := func(to *[]string) func(string) error {
		return func(s string) error {
			if s == "" {
				return errors.New("name a path")
			}
			*to = append(*to, s)
			return nil
		}
	}
	fs.Func("ours", "", list(&choice.Ours))
	fs.Func("theirs", "", list(&choice.Theirs))
	return a.withReview(fs, func(ctx context.Context, r *host.Review, only []string) error {
		if choice.Digest == "" && !*yes {
			return usage(fs, errors.New("say -digest with what review diff printed, or -yes for what is there now"))
		}
		choice.Paths = only
		set, err := r.Changes(ctx)
		if err != nil {
			return err
		}
		out, err := r.Apply(ctx, set, choice)
		if errors.Is(err, host.ErrReviewChanged) {
			return &hinted{err, "sbxhost review diff " + r.Name}
		}
		if out == nil {
			return err
		}
		for i := range out.Refused {
			c := &out.Refused[i]
			a.say(fmt.Sprintf("cannot be applied: %s: %s", reviewPath(set.Shown(c)), c.Refused))
		}
		for i := range out.Conflicts {
			c := &out.Conflicts[i]
			a.say(fmt.Sprintf("conflict: %s: %s", reviewPath(set.Shown(c)), c.Conflict))
		}
		switch {
		case err == nil:
		case len(out.Refused) > 0:
			return &hinted{err, "-ours PATH keeps what the workspace has; or name the paths to apply"}
		default:
			return &hinted{err, "-ours PATH keeps what the workspace has, -theirs PATH takes what the review has"}
		}
		if *asJSON {
			return a.result(true, newReviewResult(r.Name, set, out.Applied, nil), "")
		}
		rest := "; the rest stays in the review"
		if out.Whole {
			rest = ""
		}
		a.say(fmt.Sprintf("applied %s%s; to take it back: sbxhost review undo", plural(len(out.Applied), "change"), rest))
		return nil
	})
}

func (a *app) reviewDiscard(fs *flag.FlagSet) func() error {
	return a.withReview(fs, func(ctx context.Context, r *host.Review, more []string) error {
		if len(more) > 0 {
			return usage(fs, fmt.Errorf("unexpected argument %q", more[0]))
		}
		return r.Discard(ctx)
	})
}

func (a *app) reviewUndo(fs *flag.FlagSet) func() error {
	return a.withHost(fs, func(ctx context.Context, h *host.Host) error {
		name, told, err := h.UndoReview(ctx)
		for _, line := range told {
			if err != nil {
				line = "changed since: " + reviewPath(line)
			}
			a.say(line)
		}
		if err != nil {
			return err
		}
		a.say(fmt.Sprintf("what was applied of review %q is in it again", name))
		return nil
	})
}

// tellReview says where what the command wrote to the workspace is.
func (e *execution) tellReview() {
	if name := e.report.Review; name != "" && !e.quiet && e.report.Result != nil {
		e.say(fmt.Sprintf("what it wrote to the workspace is in review %s: sbxhost review diff %s", name, name))
	}
}

// reviewNames completes the names of reviews.
func (a *app) reviewNames() []string {
	var names []string
	_ = a.withHost(newFlags("review"), func(_ context.Context, h *host.Host) error {
		found, err := h.Reviews()
		for _, r := range found {
			if !r.Whole {
				names = append(names, r.Name)
			}
		}
		return err
	})()
	return names
}
