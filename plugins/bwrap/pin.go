package bwrap

import (
	"path"
	"slices"
	"strings"
)

// pins are the steps that keep a mask where it is. A command that may write
// around a hidden file could rename one of its parents, and the next command's
// masks would be looked for in the old place: so each directory between the
// writable mount and the mask is bound onto itself, which makes rename and rmdir
// fail. Each pin is given a place behind the mount that it lies in, and before
// what is mounted beneath it.
func pins(ops, masks []op) []op {
	pinned := map[string]bool{}
	for _, m := range masks {
		i := coverOf(ops, m.Dest)
		if i >= 0 && ops[i].Dest == m.Dest {
			i = coverOf(ops, path.Dir(m.Dest)) // what the mount itself lies in
		}
		if i < 0 || ops[i].Dest == m.Dest || ops[i].Kind != opBind && ops[i].Kind != opOverlay && ops[i].Kind != opPin {
			continue
		}
		var above []op
		for dir := path.Dir(m.Dest); dir != ops[i].Dest && !pinned[dir]; dir = path.Dir(dir) {
			pinned[dir] = true
			above = append(above, op{
				Kind: opPin, Dest: dir, Open: true, Why: m.Why,
				Source: path.Join(ops[i].Source, strings.TrimPrefix(dir, ops[i].Dest)),
			})
		}
		slices.Reverse(above)
		ops = slices.Insert(ops, i+1, above...)
	}
	return ops
}

// coverOf is the step that what lies at p comes from: of those that hold it,
// the last.
func coverOf(ops []op, p string) int {
	for i, o := range slices.Backward(ops) {
		if o.container() && within(p, o.Dest) {
			return i
		}
	}
	return -1
}

// container reports whether o lays a tree over its destination.
func (o op) container() bool {
	switch o.Kind {
	case opROBind, opBind, opTmpfs, opProc, opDev, opOverlay, opHome, opPin:
		return true
	}
	return false
}

// readOnlyIn gives the mounts that a command must not get out of the way of
// another tree that it makes in their place: those that are read-only.
func readOnlyIn(mounts []op) []op {
	var list []op
	for _, o := range mounts {
		if o.Kind == opROBind {
			list = append(list, o)
		}
	}
	return list
}
