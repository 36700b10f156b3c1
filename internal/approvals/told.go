package approvals

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/sbxhost/sbxhost/internal/paths"
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

// maxTold bounds the list. What is not there goes first. What is left over is in the last entry, by the directory that
// has all of it: else a command would push out what an earlier one has made.
const maxTold = 1000

func (s *Store) told() listFile[Told, *Told] {
	return listFile[Told, *Told]{document{s.dir, ToldFileName}, "told"}
}

// FirstToday notes that something is said, and reports whether it was not in the last day.
func (s *Store) FirstToday(ctx context.Context, what string) (bool, error) {
	noted := listFile[Told, *Told]{document{s.dir, NotedFileName}, "noted"}
	now, first := time.Now(), true
	recent := func(t Told) bool { return now.Sub(t.At).Abs() < 24*time.Hour }
	same := func(t Told) bool { return t.Path == what && recent(t) }
	if list, err := noted.list(); err != nil || slices.ContainsFunc(list, same) {
		return err != nil, err
	}
	err := noted.change(ctx, func(list []Told) ([]Told, error) {
		if first = !slices.ContainsFunc(list, same); !first {
			return nil, errUnchanged
		}
		list = slices.DeleteFunc(list, func(t Told) bool { return !recent(t) })
		list = append(list, Told{Path: what, At: now.UTC()})
		return list[max(0, len(list)-maxTold):], nil
	})
	return first, err
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
		if len(list) > maxTold {
			more := list[maxTold-1:]
			rest := Told{Path: more[0].Path, What: "something in it was made or changed that this list has no room for", At: more[len(more)-1].At}
			for _, t := range more {
				for !paths.Inside(rest.Path, t.Path) {
					rest.Path = filepath.Dir(rest.Path)
				}
			}
			list = append(list[:maxTold-1], rest)
		}
		return list, nil
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
