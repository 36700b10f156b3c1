package mountplan

import (
	"sync/atomic"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/shared"
)

// A Table makes the plans of one open sandbox's commands. Its fields do not change.
type Table struct {
	Facts   *Facts // from Open
	Support *Support
	Spec    *shared.Spec

	last atomic.Pointer[CachedPlan]
}

// A CachedPlan is a plan. Draw returns the same one while it is valid.
type CachedPlan struct {
	Ops  []holder.Op
	from memo
}

// Draw returns the plan of a command: the last one's, while all host files that it depends on are
// unchanged. A new plan costs several walks along each path of the table.
func (t *Table) Draw() (*CachedPlan, error) {
	if last := t.last.Load(); last != nil && last.from.holds() {
		return last, nil
	}
	looked := *t.Facts
	from := remember(looked.tree)
	looked.tree = from
	ops, err := Plan(&looked, t.Support, t.Spec)
	if err != nil {
		return nil, err
	}
	drawn := &CachedPlan{ops, from}
	t.last.Store(drawn)
	return drawn, nil
}
