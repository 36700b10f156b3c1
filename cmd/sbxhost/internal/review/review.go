package review

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	iofs "io/fs"
	"slices"
	"time"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
)

// reviewResult is a subcommand's result for -json.
type reviewResult struct {
	Name    string              `json:"name"`
	Digest  string              `json:"digest"`
	Changes []host.ReviewChange `json:"changes"`
}

func List(a *cli.App, fs *flag.FlagSet) func() error {
	asJSON := cli.JSONFlag(fs)
	return setup.WithHost(a, cli.ConfigFlag(fs), false, func(_ context.Context, _ *setup.Setup, h *host.Host) error {
		found, err := h.Reviews()
		if err != nil {
			return err
		}
		rows := [][]string{{"NAME", "SANDBOX", "BEGUN", "STATE"}}
		for _, r := range found {
			state := "open"
			switch {
			case r.InUse:
				state = "in use"
			case r.Complete:
				state = "applied; review undo takes it back"
			case r.Applied:
				state = "applied in part"
			}
			rows = append(rows, []string{r.Name, r.Sandbox, inforce.Age(time.Since(r.Created)), state})
		}
		if len(found) == 0 && !*asJSON {
			a.Say("there are no reviews of this workspace")
			return nil
		}
		return a.Result(*asJSON, append([]host.ReviewInfo{}, found...), cli.Table("", rows))
	})
}

// withReview is setup.WithHost for the review that the first argument names.
func withReview(a *cli.App, fs *flag.FlagSet, f func(context.Context, *host.Review, []string) error) func() error {
	var words []string
	run := setup.WithHost(a, cli.ConfigFlag(fs), false, func(ctx context.Context, _ *setup.Setup, h *host.Host) error {
		name := words[0]
		r, err := h.OpenReview(ctx, name)
		switch {
		case errors.Is(err, iofs.ErrNotExist):
			return cli.Hint(fmt.Errorf("there is no review %q of %s", name, cli.Quote(h.Root())), "sbxhost review list shows those there are")
		case errors.Is(err, host.ErrReviewInUse):
			return cli.Hint(err, "sbxhost sessions list shows kept sessions, and sbxhost sessions rm NAME ends one")
		case err != nil:
			return err
		}
		defer r.Close()
		for _, line := range r.Recovered {
			a.Say(line)
		}
		return f(ctx, r, words[1:])
	})
	return func() error {
		// Flags may follow the name, and the paths.
		for rest := fs.Args(); len(rest) > 0; rest = fs.Args() {
			words = append(words, rest[0])
			if err := fs.Parse(rest[1:]); err != nil {
				return cli.Usage(fs, err)
			}
		}
		if len(words) == 0 {
			return cli.Usage(fs, errors.New("name a review"))
		}
		return run()
	}
}

// printReview writes one line for each change, and holds few of them in memory.
func printReview(a *cli.App, set *host.ReviewSet, only []string) error {
	b := bufio.NewWriter(a.Stdout)
	for i := range set.Changes {
		c := &set.Changes[i]
		if c.Concerns(only) {
			b.WriteString(c.Text() + "\n")
		}
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return nil
}

func Show(a *cli.App, fs *flag.FlagSet) func() error {
	patch := fs.Bool("patch", false, "")
	asJSON := cli.JSONFlag(fs)
	return withReview(a, fs, func(ctx context.Context, r *host.Review, only []string) error {
		set, err := r.Changes(ctx)
		switch {
		case err != nil:
			return err
		case *asJSON:
			changes := slices.DeleteFunc(set.Changes, func(c host.ReviewChange) bool { return !c.Concerns(only) })
			return a.Result(true, reviewResult{r.Name, set.Digest, changes}, "")
		case *patch:
			err = showDiff(ctx, a, r, set, only)
		default:
			err = printReview(a, set, only)
		}
		if err != nil {
			return err
		}
		if len(only) > 0 && !slices.ContainsFunc(set.Changes, func(c host.ReviewChange) bool { return c.Concerns(only) }) {
			a.Say("no change of the review is there")
		}
		what, ours := "to apply", ""
		if slices.ContainsFunc(set.Changes, func(c host.ReviewChange) bool { return c.Refused+c.Conflict != "" }) {
			what, ours = "to apply the others", "-ours PATH ... "
		}
		if len(set.Changes) == 0 {
			a.Say(fmt.Sprintf("review %q changes nothing", r.Name))
		} else {
			a.Say(fmt.Sprintf("%s; %s: sbxhost review apply -digest %s %s%s", cli.Plural(len(set.Changes), "change"), what, set.Digest, ours, r.Name))
		}
		return nil
	})
}

// printConflicts prints what prevents changes, and notes about them.
func printConflicts(a *cli.App, changes []host.ReviewChange, only []string) {
	for i := range changes {
		c := &changes[i]
		for _, more := range [...][2]string{{"cannot be applied: ", c.Refused}, {"conflict: ", c.Conflict}, {"", c.Note}} {
			if more[1] != "" && c.Concerns(only) {
				a.Say(more[0] + cli.Quote(c.Shown) + ": " + more[1])
			}
		}
	}
}

// sizeOf formats the present or former size of a changed file.
func sizeOf(c *host.ReviewChange) string {
	for _, n := range [...]*host.ReviewNode{&c.New, &c.Old} {
		if n.Kind.String() == "file" {
			return fmt.Sprintf(", %d bytes", n.Size)
		}
	}
	return ""
}

func Apply(a *cli.App, fs *flag.FlagSet) func() error {
	var choice host.ReviewChoice
	asJSON := cli.JSONFlag(fs)
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
	return withReview(a, fs, func(ctx context.Context, r *host.Review, only []string) error {
		if choice.Digest == "" && !*yes {
			return cli.Usage(fs, errors.New("add -digest DIGEST (sbxhost review show prints it), or -yes"))
		}
		choice.Paths = only
		set, err := r.Changes(ctx)
		if err != nil {
			return err
		}
		out, err := r.Apply(ctx, set, choice)
		if errors.Is(err, host.ErrReviewChanged) {
			return cli.Hint(err, "sbxhost review show -patch "+r.Name)
		}
		if out == nil {
			return err
		}
		printConflicts(a, slices.Concat(out.Refused, out.Conflicts), nil)
		switch {
		case err == nil:
		case len(out.Refused) > 0:
			return cli.Hint(err, "-ours PATH keeps what the workspace has; or name the paths to apply")
		default:
			return cli.Hint(err, "-ours PATH keeps what the workspace has, -theirs PATH takes what the review has")
		}
		if *asJSON {
			return a.Result(true, reviewResult{r.Name, set.Digest, out.Applied}, "")
		}
		if len(out.Applied) == 0 {
			a.Say("nothing to apply")
			return nil
		}
		rest := "; the rest stays in the review"
		if out.Complete {
			rest = ""
		}
		a.Say(fmt.Sprintf("applied %s%s; to take it back: sbxhost review undo", cli.Plural(len(out.Applied), "change"), rest))
		return nil
	})
}

func Discard(a *cli.App, fs *flag.FlagSet) func() error {
	return withReview(a, fs, func(ctx context.Context, r *host.Review, more []string) error {
		if len(more) > 0 {
			return cli.Usage(fs, fmt.Errorf("unexpected argument %q", more[0]))
		}
		return r.Discard(ctx)
	})
}

func Undo(a *cli.App, fs *flag.FlagSet) func() error {
	return setup.WithHost(a, cli.ConfigFlag(fs), false, func(ctx context.Context, _ *setup.Setup, h *host.Host) error {
		name, changed, err := h.UndoReview(ctx)
		for _, line := range changed {
			if err != nil {
				line = "changed since: " + cli.Quote(line)
			}
			a.Say(line)
		}
		if err != nil {
			return err
		}
		if len(changed) > 0 {
			return fmt.Errorf("review %q was undone only in part", name)
		}
		a.Say(fmt.Sprintf("the changes are in review %q again", name))
		return nil
	})
}
