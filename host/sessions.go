package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/workspace"
)

// SessionInfo describes a named session that there is.
type SessionInfo struct {
	Name      string
	Workspace string // the root that it belongs to
	Dir       string
	UID       uint32 // whom its commands run as
	Size      int64  // bytes on its file system
	LastUsed  time.Time
	InUse     bool
	Users     []int // the processes that use it, as far as the system tells
}

// Sessions lists the named sessions of this user, by name. For root these are
// also those that root has made for the owners of workspaces. The environment is
// that of Options.Environ; the directory that of SessionOptions.Dir.
func Sessions(ctx context.Context, environ []string, dir string) ([]SessionInfo, error) {
	places, err := sessionPlaces(environ, dir)
	if err != nil {
		return nil, err
	}
	var list []SessionInfo
	for _, place := range places {
		found, err := workspace.Sessions(place.base)
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			size, err := s.Size(ctx)
			if err != nil {
				return nil, err
			}
			list = append(list, SessionInfo{Name: s.Name, Workspace: s.Workspace, Dir: s.Dir, UID: place.uid,
				Size: size, LastUsed: s.LastUsed, InUse: s.InUse, Users: s.Users})
		}
	}
	return list, nil
}

// RemoveSession removes a named session and all that it keeps. It is
// ErrSessionInUse while a process uses it and fs.ErrNotExist if there is none.
func RemoveSession(environ []string, dir, name string) error {
	places, err := sessionPlaces(environ, dir)
	if err != nil {
		return err
	}
	var with []string
	for _, place := range places {
		found, err := workspace.Sessions(place.base)
		if err != nil {
			return err
		}
		for _, s := range found {
			if s.Name == name {
				with = append(with, place.base)
			}
		}
	}
	switch len(with) {
	case 0:
		return fmt.Errorf("session %q: %w", name, fs.ErrNotExist)
	case 1:
		return workspace.RemoveSession(with[0], name)
	}
	return fmt.Errorf("session %q: there are several, for different users (%s); say which by its directory", name, strings.Join(with, ", "))
}

// sessionPlace is a directory of sessions and whose commands they are for.
type sessionPlace struct {
	base string
	uid  uint32
}

func sessionPlaces(environ []string, dir string) ([]sessionPlace, error) {
	if environ == nil {
		environ = os.Environ()
	}
	self := uint32(os.Geteuid())
	if dir != "" {
		return []sessionPlace{{dir, self}}, nil
	}
	own, err := workspace.SessionsDir(caller{environ: environ}.lookupEnv)
	if err != nil {
		return nil, err
	}
	places := []sessionPlace{{own, self}}
	if self != 0 {
		return places, nil
	}
	entries, err := os.ReadDir(workspace.SystemSessionsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if uid, err := strconv.ParseUint(e.Name(), 10, 32); err == nil && e.IsDir() {
			places = append(places, sessionPlace{filepath.Join(workspace.SystemSessionsDir(), e.Name()), uint32(uid)})
		}
	}
	return places, nil
}
