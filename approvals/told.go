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

// maxTold bounds the list. The oldest go first.
const maxTold = 1000

func (s *Store) told() listFile[Told, *Told] {
	return listFile[Told, *Told]{document{s.dir, ToldFileName}, "told"}
}

// AddTold adds to the list, in the place of what it has of these paths, and takes out what is no longer there.
func (s *Store) AddTold(ctx context.Context, made []Told, still func(*Told) bool) error {
	return s.told().change(ctx, func(list []Told) ([]Told, error) {
		list = slices.DeleteFunc(list, func(t Told) bool {
			return !still(&t) || slices.ContainsFunc(made, func(m Told) bool { return m.Path == t.Path })
		})
		list = append(list, made...)
		return list[max(0, len(list)-maxTold):], nil
	})
}

// ToldList gives the list, in the order in which it was made.
func (s *Store) ToldList() ([]Told, error) { return s.told().list() }

// ClearTold empties the list.
func (s *Store) ClearTold(ctx context.Context) error {
	return s.told().change(ctx, func(list []Told) ([]Told, error) {
		if len(list) == 0 {
			return nil, errUnchanged
		}
		return []Told{}, nil
	})
}
