package approvals

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Told is something that a command has made or changed and that acts outside of sandboxes. It is in the list until a
// person has seen it.
type Told struct {
	Path string    `json:"path"`
	What string    `json:"what"` // for people
	At   time.Time `json:"at"`
}

func (t *Told) texts() []*string { return []*string{&t.Path} }

func (t *Told) check() error {
	if t.Path == "" {
		return errors.New("path is missing")
	}
	return nil
}

// maxTold bounds the list. What is not there goes first, and then the oldest.
const maxTold = 1000

func (s *Store) told() listFile[Told, *Told] {
	return listFile[Told, *Told]{document{s.dir, ToldFileName}, "told"}
}

// AddTold adds to the list, in the place of what it has of these paths. What is not there stays in it: a command can
// move it away for a moment.
func (s *Store) AddTold(ctx context.Context, made []Told, still func(*Told) bool) error {
	return s.told().change(ctx, func(list []Told) ([]Told, error) {
		list = slices.DeleteFunc(list, func(t Told) bool {
			return slices.ContainsFunc(made, func(m Told) bool { return m.Path == t.Path })
		})
		list = append(list, made...)
		if len(list) > maxTold {
			list = slices.DeleteFunc(list, func(t Told) bool { return !still(&t) })
		}
		return list[max(0, len(list)-maxTold):], nil
	})
}

// ToldList gives the list, in the order in which it was made.
func (s *Store) ToldList() ([]Told, error) { return s.told().list() }

// ClearTold takes out of the list what a person has seen of it. What was told once more since then stays.
func (s *Store) ClearTold(ctx context.Context, seen []Told) error {
	return s.told().change(ctx, func(list []Told) ([]Told, error) {
		n := len(list)
		list = slices.DeleteFunc(list, func(t Told) bool {
			return slices.ContainsFunc(seen, func(s Told) bool { return s.Path == t.Path && s.At.Equal(t.At) })
		})
		if len(list) == n {
			return nil, errUnchanged
		}
		return list, nil
	})
}
