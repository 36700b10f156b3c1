package inforce

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/source"
)

// TrustPath returns the path to which trust in a configuration belongs: its resolved directory,
// and its name. It does not follow a symlink at the file itself: relative paths in the text are
// relative to the link's directory, so a link to a file that is trusted elsewhere would make
// programs of this workspace run in its name.
func TrustPath(found string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(found))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(found)), nil
}

// checkUserFile refuses a file in the user's configuration directory that somebody else can have
// written, or can replace before it is read: HOME may be another user's, as for root if sudo keeps
// the variable.
func checkUserFile(path string) error {
	if _, _, err := hostpath.CheckFile(path, nil); err != nil {
		return &HintedError{fmt.Errorf("somebody else could have written the file in your configuration directory; nothing was run: %w", err),
			"or name it as your own: -config " + hostpath.ShellQuoted(path)}
	}
	return nil
}

// Store returns the user's store of approvals and trust.
func (c *Caller) Store() (*approvals.Store, error) {
	dir := approvals.Dir(c.Getenv)
	if dir == "" {
		return nil, &HintedError{errors.New("sbxhost cannot store trust and approvals, because neither HOME nor XDG_STATE_HOME is an absolute path"), "set one of them"}
	}
	dir, err := hostpath.Resolve("/", dir, c.WritableDirs(host.Options{}, dir))
	if err != nil {
		return nil, err
	}
	return approvals.Open(dir), nil
}

// Trusts reports whether the user trusts the present text of a configuration, at a path of
// TrustPath.
func (c *Caller) Trusts(path string) bool {
	text, err := source.Read(path)
	if err != nil {
		return false
	}
	store, err := c.Store()
	if err != nil {
		return false
	}
	trusted, _, _ := store.Trusts(path, text)
	return trusted
}

// trustedText returns the text of a configuration in the workspace, if the user trusts it; path is
// one of TrustPath. The caller must parse these bytes under that path: a moment later, the file,
// or the target of a symlink in its path, may be another one.
func (c *Caller) trustedText(ctx context.Context, path string) ([]byte, error) {
	text, err := source.Read(path)
	if err != nil {
		return nil, err
	}
	shown, named := hostpath.Shown(path), "or use it without trust: -config "+hostpath.ShellQuoted(path)
	store, err := c.Store()
	if err != nil {
		return nil, &HintedError{fmt.Errorf("%s was found in the workspace, and %w", shown, err), strings.TrimPrefix(named, "or ")}
	}
	trusted, before, err := store.Trusts(path, text)
	if err != nil {
		return nil, &HintedError{fmt.Errorf("%s was found in the workspace, and whether it is trusted is not known: %w", shown, err), named}
	}
	if trusted {
		return text, nil
	}
	refusal := &HintedError{fmt.Errorf("%s was found in the workspace, and you have not trusted it; nothing was run", shown),
		fmt.Sprintf("read it, then: sbxhost trust %s; %s", hostpath.ShellQuoted(path), named)}
	asked := &UntrustedFile{Path: path, Text: text}
	if before != nil {
		refusal.Err = fmt.Errorf("%s was found in the workspace, and has changed since you trusted it (%s); nothing was run", shown, Age(time.Since(before.At)))
		asked.Changed, asked.Previous = true, before.Content
	}
	if c.Getenv("SBXHOST") != "" { // trust is in the home outside
		refusal = &HintedError{fmt.Errorf("this is inside a sandbox, where you have not trusted %s; nothing was run", shown), "run it outside, " + named}
	}
	if c.Trust == nil {
		return nil, refusal
	}
	switch yes, err := c.Trust(ctx, asked); {
	case err != nil:
		return nil, err
	case !yes:
		return nil, refusal
	}
	if err := store.AddTrust(ctx, path, text); err != nil {
		return nil, NotRemembered(path, err)
	}
	return text, nil
}

// NotRemembered is the error for trust that cannot be stored: a read-only home, a full disk.
func NotRemembered(path string, err error) error {
	return &HintedError{fmt.Errorf("that you trust %s cannot be remembered: %w", hostpath.Shown(path), err),
		fmt.Sprintf("set XDG_STATE_HOME to a directory of your own that can be written, or use the file without trust: -config %s", hostpath.ShellQuoted(path))}
}

// Age says to people how long ago something was.
func Age(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		switch n := int(d / unit.size); {
		case n == 1:
			return "1 " + unit.name + " ago"
		case n > 1:
			return fmt.Sprintf("%d %ss ago", n, unit.name)
		}
	}
	return "just now"
}
