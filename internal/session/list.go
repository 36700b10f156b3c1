//go:build unix

package session

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

// List lists this user's named sessions, by name; for root, also those that root has made for
// owners of workspaces. lookupEnv reads the user's environment; dir is Options.Dir.
func List(ctx context.Context, lookupEnv func(string) (string, bool), dir string) ([]Info, error) {
	bases, err := findBases(lookupEnv, dir)
	if err != nil {
		return nil, err
	}
	var list []Info
	for _, p := range bases {
		found, err := sessiondir.List(p.dir)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			size, err := s.Size(ctx)
			if err != nil {
				return nil, err
			}
			list = append(list, Info{Info: s, UID: p.uid, Size: size})
		}
	}
	return list, nil
}

// Remove removes a named session and all that it keeps. It returns ErrSessionInUse while a process
// uses it, and fs.ErrNotExist if there is none.
func Remove(lookupEnv func(string) (string, bool), dir, name string) error {
	bases, err := findBases(lookupEnv, dir)
	if err != nil {
		return err
	}
	var with []string
	for _, p := range bases {
		found, err := sessiondir.List(p.dir)
		if err != nil {
			return err
		}
		for _, s := range found {
			if s.Name == name {
				with = append(with, p.dir)
			}
		}
	}
	switch len(with) {
	case 0:
		return fmt.Errorf("session %q: %w", name, fs.ErrNotExist)
	case 1:
		return sessiondir.Remove(with[0], name)
	}
	return fmt.Errorf("session %q: there are several, for different users (%s); say which by its directory", name, strings.Join(with, ", "))
}

// userBase is a directory of sessions, with the user of their commands.
type userBase struct {
	dir string
	uid uint32
}

func findBases(lookupEnv func(string) (string, bool), dir string) ([]userBase, error) {
	self := uint32(os.Geteuid())
	if dir != "" {
		return []userBase{{dir, self}}, nil
	}
	user, err := sessiondir.UserBase(lookupEnv)
	if err != nil {
		return nil, err
	}
	bases := []userBase{{user, self}}
	if self != 0 {
		return bases, nil
	}
	entries, err := os.ReadDir(sessiondir.SystemBase())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if uid, err := strconv.ParseUint(e.Name(), 10, 32); err == nil && e.IsDir() {
			bases = append(bases, userBase{filepath.Join(sessiondir.SystemBase(), e.Name()), uint32(uid)})
		}
	}
	return bases, nil
}
