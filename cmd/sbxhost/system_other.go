//go:build !unix

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
)

func hook()          {}
func settleProcess() {}

// These need an engine, which there is none of.
func (a *app) doctor(*flag.FlagSet) func() error      { return nil }
func (a *app) enginesTest(*flag.FlagSet) func() error { return nil }
func (a *app) exec(*flag.FlagSet) func() error        { return nil }
func (a *app) shell(*flag.FlagSet) func() error       { return nil }

func (a *app) reviewApply(*flag.FlagSet) func() error   { return nil }
func (a *app) reviewDiff(*flag.FlagSet) func() error    { return nil }
func (a *app) reviewDiscard(*flag.FlagSet) func() error { return nil }
func (a *app) reviewList(*flag.FlagSet) func() error    { return nil }
func (a *app) reviewShow(*flag.FlagSet) func() error    { return nil }
func (a *app) reviewUndo(*flag.FlagSet) func() error    { return nil }

func (a *app) reviewNames() []string { return nil }

// Trust is not kept here, and so nothing is asked.
func (a *app) ask(context.Context, func(host.TerminalSize) string) (string, error) {
	return "", errNoTerminal
}

func (a *app) showChange(string, string) {}

// A writing is a file that is about to be replaced. No command runs here that could lead
// its path elsewhere.
type writing struct{ path string }

func (a *app) openWriting(name string, _ host.Options) (*writing, error) {
	path, err := filepath.EvalSymlinks(a.absolute(name))
	return &writing{path}, err
}

func (w *writing) close() {}

func (w *writing) replace(before, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(w.path), ".sbxhost-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		var now []byte
		if now, err = config.Read(w.path); err == nil && !bytes.Equal(now, before) {
			err = &hinted{fmt.Errorf("%s was changed meanwhile", quote(w.path)), "run it again"}
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), w.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

func writeNew(path string, _ func() []string, text []byte, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if errors.Is(err, os.ErrExist) {
		return &hinted{fmt.Errorf("%s exists", quote(path)), "-force replaces it"}
	} else if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}
