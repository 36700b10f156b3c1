package mountplan

import (
	"sync/atomic"

	"github.com/sbxhost/sbxhost/shared"
)

// A Table draws the plans of one open sandbox's commands. Its fields stay as they are.
type Table struct {
	Facts *Facts // as of Open
	Held  *Held
	Spec  *shared.Spec

	last atomic.Pointer[Drawn]
}

// Drawn is a plan. The same one is given again for as long as it holds.
type Drawn struct {
	Ops  []Op
	from memo
}

// Draw gives the plan of a command: the last one's, while all that it was made from of
// the host is as it was. To settle a table costs a walk along each of its paths, several
// times over.
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
