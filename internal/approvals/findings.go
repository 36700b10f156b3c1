package approvals

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/sbxhost/sbxhost/internal/paths"
)

// Finding is a file that a command has made or changed, and that acts outside of sandboxes. It is
// in the list until a person has seen it.
type Finding struct {
	Path        string    `json:"path"`
	Description string    `json:"what"` // for people
	At          time.Time `json:"at"`
}

func (t *Finding) texts() []*string { return []*string{&t.Path} }

func (t *Finding) check() error {
	if t.Path == "" {
		return errors.New("path is missing")
	}
	return nil
}

// maxFindings is how long the list may be. Findings whose files are gone are dropped first. The
// last entry then stands for the rest, by the directory that contains all of it: otherwise a
// command could drive an earlier finding out.
const maxFindings = 1000

func (s *Store) findingsFile() listFile[Finding, *Finding] {
	return listFile[Finding, *Finding]{document{s.dir, FindingsFileName}, "told"}
}

// FirstToday records that a text was shown, and reports whether it was not shown during the last
// day.
func (s *Store) FirstToday(ctx context.Context, what string) (bool, error) {
	noted := listFile[Finding, *Finding]{document{s.dir, NotedFileName}, "noted"}
	now, first := time.Now(), true
	recent := func(t Finding) bool { return now.Sub(t.At).Abs() < 24*time.Hour }
	same := func(t Finding) bool { return t.Path == what && recent(t) }
	if list, err := noted.list(); err != nil || slices.ContainsFunc(list, same) {
		return err != nil, err
	}
	err := noted.change(ctx, func(list []Finding) []Finding {
		if first = !slices.ContainsFunc(list, same); !first {
			return list
		}
		list = slices.DeleteFunc(list, func(t Finding) bool { return !recent(t) })
		list = append(list, Finding{Path: what, At: now.UTC()})
		return list[max(0, len(list)-maxFindings):]
	})
	return first, err
}

// AddFindings adds to the list. A harmless change must not hide an earlier one at the same path, so only
// an equal entry is replaced, in its place: at the end, the list may have no room for it. A finding whose
// file is gone stays: a command can move it away for a moment.
func (s *Store) AddFindings(ctx context.Context, made []Finding, still func(*Finding) bool) error {
	return s.findingsFile().change(ctx, func(list []Finding) []Finding {
		for _, m := range made {
			if i := slices.IndexFunc(list, func(t Finding) bool { return m.Path == t.Path && m.Description == t.Description }); i >= 0 {
				list[i] = m
			} else {
				list = append(list, m)
			}
		}
		if len(list) > maxFindings {
			list = slices.DeleteFunc(list, func(t Finding) bool { return !still(&t) })
		}
		if len(list) > maxFindings {
			more := list[maxFindings-1:]
			rest := Finding{Path: more[0].Path, Description: "this list is not complete: more was made or changed in it", At: more[len(more)-1].At}
			for _, t := range more {
				for !paths.Inside(rest.Path, t.Path) {
					rest.Path = filepath.Dir(rest.Path)
				}
			}
			list = append(list[:maxFindings-1], rest)
		}
		return list
	})
}

// Findings returns the list, in the order of its creation.
func (s *Store) Findings() ([]Finding, error) { return s.findingsFile().list() }

// AcknowledgeFindings removes the findings that a person has seen. A finding that was reported
// again since then stays.
func (s *Store) AcknowledgeFindings(ctx context.Context, seen []Finding) error {
	return s.findingsFile().change(ctx, func(list []Finding) []Finding {
		return slices.DeleteFunc(list, func(t Finding) bool {
			return slices.ContainsFunc(seen, func(s Finding) bool { return s.Path == t.Path && s.At.Equal(t.At) })
		})
	})
}
