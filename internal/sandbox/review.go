//go:build unix

package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/facts"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/review"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// reviewsInUse are the reviews that commands of a Host use, or have used.
type reviewsInUse struct {
	mu     sync.Mutex
	uses   map[string]*review.Review
	joined map[string]bool // by commands since the last leaveReview
}

func (r *reviewsInUse) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, use := range r.uses {
		use.Close()
	}
	clear(r.uses)
}

// reviewPatience is how long to wait for a review that another process lists or applies, or for a
// process that ends.
const reviewPatience = 3 * time.Second

// joinReview begins to use a definition's review, until the Host closes, or opens it.
func (p *Pool) joinReview(ctx context.Context, name string, def *view.Definition) (*review.Review, error) {
	if o := p.Machine.Owner; o != nil {
		return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "review", Hint: "run as that user",
			Message: fmt.Sprintf("commands run as the workspace's owner, user %d, and only the caller's own commands can have a review", o.User.UID)}
	}
	p.reviews.mu.Lock()
	defer p.reviews.mu.Unlock()
	p.reviews.joined[def.Review] = true
	if use := p.reviews.uses[def.Review]; use != nil {
		return use, nil
	}
	waiting, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	use, err := p.ReviewStore().Join(waiting, def.Review, name, session.CredentialKey(def, p.Machine.Sets()))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		} else if errors.Is(err, review.ErrInUse) {
			return nil, err
		}
		return nil, unusable(err)
	}
	p.reviews.uses[def.Review] = use
	return use, nil
}

// unusable says why a definition cannot have its review.
func unusable(err error) error {
	hint := ""
	switch {
	case errors.Is(err, review.ErrPlace):
		hint = "leave review out, or move the workspace into a directory of your own on the same file system"
	case errors.Is(err, review.ErrCredentials):
		hint = "give these commands a review of another name"
	}
	return view.Invalid("review", err.Error(), hint)
}

// addLayers records the sources of a review's overlays before commands see them.
func addLayers(ctx context.Context, use *review.Review, out *facts.Resolution) error {
	for _, source := range layers(&out.Spec) {
		upper, lock := shared.KeptOverlay(&out.Spec.Session, uint32(os.Geteuid()), source)
		if err := use.Add(ctx, source, upper, lock, out.GitDirs...); err != nil {
			return unusable(err)
		}
	}
	return nil
}

// layers are the sources of a review's overlays.
func layers(spec *shared.Spec) (sources []string) {
	for _, e := range spec.Table {
		if e.Access == shared.Overlay && !e.Degradable {
			sources = append(sources, e.Source)
		}
	}
	return sources
}

// checkMounts refuses overlays that the kernel does not make in a user namespace.
func checkMounts(sources []string) error {
	if at := facts.MountBeneath(sources); at != "" {
		return view.Invalid("review", fmt.Sprintf("there is a mount at %q, and the kernel makes no overlay above it", at), "unmount it first")
	}
	return nil
}

// checkReviewPlace makes sure that an engine keeps a review at the expected path.
func checkReviewPlace(spec *shared.Spec) error {
	for _, source := range layers(spec) {
		upper, _ := shared.KeptOverlay(&spec.Session, uint32(os.Geteuid()), source)
		if _, err := os.Lstat(upper); err != nil {
			return &shared.Error{Kind: shared.ErrBroken, Attribute: "review", Message: "the engine does not keep the commands' writes at the expected path: " + err.Error()}
		}
	}
	return nil
}

// ReviewStore is the Store of the workspace's reviews.
func (p *Pool) ReviewStore() *review.Store {
	return review.StoreOf(p.Machine.Workspace.Root(), p.Machine.Caller.StateDir())
}

// OpenReview opens a review that no process uses.
func (p *Pool) OpenReview(ctx context.Context, name string) (*review.Review, error) {
	if err := p.leaveReview(ctx, name); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	r, err := p.ReviewStore().Open(waiting, name)
	if err != nil {
		return nil, err
	}
	if err := p.proveUnmounted(ctx, r); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// leaveReview ends this Host's own use of a review.
func (p *Pool) leaveReview(ctx context.Context, name string) error {
	p.reviews.mu.Lock()
	p.reviews.joined[name] = false
	p.reviews.mu.Unlock()
	var errs []error
	for _, s := range p.allSlots() {
		if err := s.lock.Acquire(ctx); err != nil {
			return err
		}
		all := s.all()
		if len(all) == 0 || all[0].Definition.Review != name {
			s.lock.Release()
			continue
		}
		p.mu.Lock()
		holds := p.processes != nil && p.processes.slot == s // its processes would end
		p.mu.Unlock()
		if holds || s.busy() {
			s.lock.Release()
			return fmt.Errorf("review %q: %w", name, review.ErrInUse)
		}
		s.current, s.retired = nil, nil
		s.lock.Release()
		for _, sb := range all {
			errs = append(errs, sb.close(ctx))
		}
	}
	p.reviews.mu.Lock()
	defer p.reviews.mu.Unlock()
	if p.reviews.joined[name] {
		return fmt.Errorf("review %q: %w", name, review.ErrInUse)
	} else if use := p.reviews.uses[name]; use != nil {
		use.Close()
		delete(p.reviews.uses, name)
	}
	return errors.Join(errs...)
}

// proveUnmounted makes sure that no process has mounted an overlay of the review, of whatever engine:
// the kernel refuses a second mount. A killed command's may exist for a moment.
func (p *Pool) proveUnmounted(ctx context.Context, r *review.Review) error {
	if err := checkMounts(r.Sources()); err != nil {
		return err
	}
	engine, err := p.Engine(ctx, "native")
	if err != nil {
		return err
	}
	for _, source := range r.Sources() { // one by one: in the layer of another, commands may have removed the place of a nested one
		sandbox, err := engine.Open(ctx, shared.Spec{Sandbox: r.Sandbox(), Session: reviewSession(r),
			Table: []shared.Entry{{Path: source, Source: source, Access: shared.Overlay, Why: view.OriginReview}}})
		if err != nil {
			return fmt.Errorf("review %q: %w", r.Name, engine.Lost(err))
		}
		if err := sandbox.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reviewSession is what the commands of a review share, in all processes.
func reviewSession(r *review.Review) shared.Session {
	return shared.Session{ID: session.ID(r.Dir()), Dir: r.Dir()}
}

// Changes lists the differences of a review. It refuses what the definition hides or protects.
func (p *Pool) Changes(ctx context.Context, r *review.Review, t Target) (*review.Set, error) {
	t.Definition.Review = r.Name
	out, err := p.Machine.Resolve(ctx, facts.Request{Name: t.Name, Definition: t.Definition, Session: reviewSession(r), Planning: true})
	if err != nil {
		return nil, err
	}
	rules := review.Rules{Configurations: out.Configurations, Submodules: out.Submodules}
	rules.Hidden, rules.Denied, rules.Behind = out.ReviewRules(out.Spec.Table)
	rules.IsGitControlled = func(p string) bool {
		return paths.InsideAny(out.GitControlled, p) || slices.Contains(out.HookDirs, path.Dir(p))
	}
	return r.Changes(ctx, rules)
}
