package mountplan

import (
	"sync/atomic"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/shared"
)

// A Table makes the plans of one open sandbox's commands. Its fields do not change.
type Table struct {
	Facts *Facts // from Open
	Held  *Held
	Spec  *shared.Spec

	last atomic.Pointer[Drawn]
}

// Drawn is a plan. Draw returns the same one while it is valid.
type Drawn struct {
	Ops  []holder.Op
	from memo
}

// Draw returns the plan of a command: the last one's, while all host files that it depends on are
// unchanged. To settle a table walks along each of its paths, several times.
func (t *Table) Draw() (*Drawn, error) {
	if last := t.last.Load(); last != nil && last.from.holds() {
		return last, nil
	}
	looked := *t.Facts
	from := remember(looked.tree)
	looked.tree = from
	ops, err := Plan(&looked, t.Held, t.Spec)
	if err != nil {
		return nil, err
	}
	drawn := &Drawn{ops, from}
	t.last.Store(drawn)
	return drawn, nil
}
