//go:build unix

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/host/facts"
	"github.com/sbxhost/sbxhost/host/session"
	"github.com/sbxhost/sbxhost/host/view"
	"github.com/sbxhost/sbxhost/paths"
	"github.com/sbxhost/sbxhost/review"
	"github.com/sbxhost/sbxhost/shared"
)

// reviewID is the session of a review's commands, in whatever process.
func reviewID(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return hex.EncodeToString(sum[:16])
}

// reviewsInUse are the reviews that commands of a Host use, or have used.
type reviewsInUse struct {
	mu   sync.Mutex
	uses map[string]*review.Use
}

func (r *reviewsInUse) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, use := range r.uses {
		use.Close()
	}
	r.uses = nil
}

// reviewPatience is how long a review that is being listed or applied is waited for, or a
// process that is ending.
const reviewPatience = 3 * time.Second

// joinReview begins to use a definition's review. It is used until the Host is closed, or opens it.
func (h *Host) joinReview(ctx context.Context, name string, def *Definition) (*review.Use, error) {
	if o := h.machine.Owner; o != nil {
		return nil, &shared.Error{Kind: shared.ErrUnsupported, Attribute: "review", Hint: "run as that user",
			Message: fmt.Sprintf("commands run as the workspace's owner, user %d, and a review is of the caller's own commands", o.User.UID)}
	}
	h.reviews.mu.Lock()
	defer h.reviews.mu.Unlock()
	if use := h.reviews.uses[def.Review]; use != nil {
		return use, nil
	}
	setStage(ctx, "it waited for review %q", def.Review)
	waiting, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	use, err := h.shelf().Join(waiting, def.Review, name, session.Reach(def))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, view.Invalid("review", err.Error(), reviewHint(err))
	}
	if h.reviews.uses == nil {
		h.reviews.uses = map[string]*review.Use{}
	}
	h.reviews.uses[def.Review] = use
	return use, nil
}

func reviewHint(err error) string {
	switch {
	case errors.Is(err, review.ErrPlace):
		return "leave review out, or move the workspace into a directory of your own on the same file system"
	case errors.Is(err, review.ErrReach):
		return "give these commands a review of another name"
	}
	return ""
}

func (h *Host) shelf() *review.Shelf { return review.ShelfOf(h.Root()) }

// addLayers has a review note what the sources of its overlays are like, before commands see them.
func addLayers(ctx context.Context, use *review.Use, spec *shared.Spec) error {
	for _, e := range spec.Table {
		if e.Access != shared.Overlay || e.Degradable {
			continue
		}
		upper, lock := shared.KeptOverlay(&spec.Session, uint32(os.Geteuid()), e.Source)
		if err := use.Add(ctx, e.Source, upper, lock); err != nil {
			return view.Invalid("review", err.Error(), reviewHint(err))
		}
	}
	return nil
}

// checkKept makes sure that an engine keeps a review where it will be looked for.
func checkKept(review string, spec *shared.Spec) error {
	for _, e := range spec.Table {
		if review == "" || e.Access != shared.Overlay || e.Degradable {
			continue
		}
		upper, _ := shared.KeptOverlay(&spec.Session, uint32(os.Geteuid()), e.Source)
		if _, err := os.Lstat(upper); err != nil {
			return &shared.Error{Kind: shared.ErrBroken, Attribute: "review", Message: "the engine does not keep what commands write where it should: " + err.Error()}
		}
	}
	return nil
}

// Reviews lists the reviews of the workspace, by name: those that were applied as a whole, and can be
// taken back, are Whole.
func (h *Host) Reviews() ([]ReviewInfo, error) { return h.shelf().List() }

// A Review is what commands wrote to the workspace and that has not come there yet. While it is
// open, no command can use it.
type Review struct {
	host *Host
	*review.Review
}

// OpenReview opens a review that no process uses. It is ErrReviewInUse while one does, of this Host's
// commands as well, and fs.ErrNotExist if there is none.
func (h *Host) OpenReview(ctx context.Context, name string) (*Review, error) {
	if err := h.leaveReview(ctx, name); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, reviewPatience)
	defer cancel()
	one, err := h.shelf().Open(waiting, name)
	if err != nil {
		return nil, err
	}
	r := &Review{host: h, Review: one}
	if err := r.prove(ctx); err != nil {
		one.Close()
		return nil, err
	}
	return r, nil
}

// leaveReview ends this Host's own use of a review.
func (h *Host) leaveReview(ctx context.Context, name string) error {
	h.mu.Lock()
	slots := maps.Clone(h.sandboxes)
	h.mu.Unlock()
	var errs []error
	for key, slot := range slots {
		if err := slot.lock.Acquire(ctx); err != nil {
			return err
		}
		all := slot.retired
		if slot.current != nil {
			all = append(all, slot.current)
		}
		if len(all) == 0 || all[0].def.Review != name {
			slot.lock.Release()
			continue
		}
		if slices.ContainsFunc(all, func(sb *openSandbox) bool { return sb.running.Load() > 0 }) {
			slot.lock.Release()
			return fmt.Errorf("review %q: %w", name, ErrReviewInUse)
		}
		slot.dropped, slot.current, slot.retired = true, nil, nil
		slot.lock.Release()
		h.mu.Lock()
		if h.sandboxes[key] == slot {
			delete(h.sandboxes, key)
		}
		h.mu.Unlock()
		for _, sb := range all {
			errs = append(errs, sb.close(ctx))
		}
	}
	h.reviews.mu.Lock()
	if use := h.reviews.uses[name]; use != nil {
		use.Close()
		delete(h.reviews.uses, name)
	}
	h.reviews.mu.Unlock()
	return errors.Join(errs...)
}

// prove makes sure that no process has an overlay of the review mounted: the kernel lets nobody mount it
// a second time. A killed command's may be there for a moment.
func (r *Review) prove(ctx context.Context) error {
	t, err := r.target()
	if err != nil {
		return err
	}
	engine, err := r.host.engine(ctx, t.def.Engine)
	if err != nil {
		return err
	}
	if !engine.Info.Features.Has(shared.FeatureOverlayKept) {
		return fmt.Errorf("review %q: engine %q, which its sandbox %q has now, cannot say whether it is in use", r.Name, engine.Info.Name, t.name)
	}
	spec := shared.Spec{Sandbox: t.name, Session: shared.Session{ID: reviewID(r.Dir()), Dir: r.Dir()}}
	for _, source := range r.Sources() {
		// One that lies in another is shown in what the other does not show.
		if dir := path.Dir(source); paths.InsideAny(r.Sources(), dir) && !slices.ContainsFunc(spec.Table, func(e shared.Entry) bool { return e.Path == dir }) {
			spec.Table = append(spec.Table, shared.Entry{Path: dir, Source: dir, Access: shared.ReadOnly, Why: "review"})
		}
		spec.Table = append(spec.Table, shared.Entry{Path: source, Source: source, Access: shared.Overlay, Why: "review"})
	}
	slices.SortFunc(spec.Table, func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	sandbox, err := engine.Open(ctx, spec)
	if err != nil {
		return fmt.Errorf("review %q: %w", r.Name, engine.Lost(err))
	}
	return sandbox.Close(ctx)
}

// target is the definition that the review's first command had, or the default one.
func (r *Review) target() (target, error) {
	t, err := r.host.target(r.Sandbox())
	if errors.Is(err, ErrUnknownSandbox) {
		t, err = r.host.target("")
	}
	if errors.Is(err, ErrUnknownSandbox) {
		return target{name: "default"}, nil
	}
	return t, err
}

// Changes says what is different. What a definition hides or protects is refused.
func (r *Review) Changes(ctx context.Context) (*ReviewSet, error) {
	t, err := r.target()
	if err != nil {
		return nil, err
	}
	def := t.def
	def.Review = r.Name
	out, err := r.host.machine.Resolve(ctx, facts.Request{Name: t.name, Definition: def, Session: shared.Session{ID: reviewID(r.Dir()), Dir: r.Dir()}})
	if err != nil {
		return nil, err
	}
	return r.Review.Changes(ctx, review.Rules{Denied: denied(out.Spec.Table), Configurations: out.Configurations})
}

// denied says of a path of the host why commands cannot change it.
func denied(table []shared.Entry) func(p string) string {
	hostPath := view.HostPaths(table)
	why := map[string]string{}
	for i := range table {
		e := &table[i]
		switch at := hostPath(e); {
		case at == "":
		case e.Access == shared.Hidden || e.Access == shared.ReadOnly:
			why[at] = e.Why
		case why[at] == "":
			why[at] = "" // what lies in something protected, and is not
		}
	}
	return func(p string) string {
		for at := p; at != "/"; at = path.Dir(at) {
			if reason, ok := why[at]; ok {
				return reason
			}
		}
		return ""
	}
}

// UndoReview takes the last apply back, as long as nothing of what it changed was changed
// since: what was is listed.
func (h *Host) UndoReview(ctx context.Context) (name string, changed []string, err error) {
	return h.shelf().Undo(ctx)
}
