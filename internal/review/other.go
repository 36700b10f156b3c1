//go:build !linux

package review

import (
	"context"
	"fmt"
)

var errLinux = fmt.Errorf("%w: only Linux has the overlays that a review needs", ErrPlace)

// A Store has the reviews of one workspace; none on this system.
type Store struct{}

// StoreOf returns the Store of a workspace.
func StoreOf(string, string) *Store { return &Store{} }

// Bases returns the directories of a user's reviews.
func Bases(string) []string { return nil }

// A Review is open in this process alone.
type Review struct {
	Name      string
	Recovered []string
}

func (s *Store) Join(context.Context, string, string, string) (*Review, error) { return nil, errLinux }
func (s *Store) List() ([]Info, error)                                         { return nil, nil }
func (s *Store) Open(context.Context, string) (*Review, error)                 { return nil, errLinux }
func (s *Store) Undo(context.Context) (string, []string, error)                { return "", nil, errLinux }

func (r *Review) Add(context.Context, string, string, string, ...string) error { return errLinux }

func (r *Review) Sandbox() string                                       { return "" }
func (r *Review) Dir() string                                           { return "" }
func (r *Review) Sources() []string                                     { return nil }
func (r *Review) Close()                                                {}
func (r *Review) Discard(context.Context) error                         { return errLinux }
func (r *Review) Changes(context.Context, Rules) (*Set, error)          { return nil, errLinux }
func (r *Review) Apply(context.Context, *Set, Choice) (*Outcome, error) { return nil, errLinux }
func (r *Review) Export(context.Context, *Set, []string) ([]string, []Change, func(), error) {
	return nil, nil, nil, errLinux
}
