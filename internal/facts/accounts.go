//go:build unix

package facts

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/user"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/workspace"
)

// ForFiles is the owner of files that are made for commands, nil for the caller.
func (o *Owner) ForFiles() *sessiondir.User {
	if o == nil {
		return nil
	}
	return &sessiondir.User{UID: o.User.UID, GID: o.User.GID}
}

// HomeDir is the owner's home, or "".
func (o *Owner) HomeDir() string {
	if o == nil {
		return ""
	}
	return o.Home
}

// gitUser is the user for git, nil for the caller.
func (o *Owner) gitUser() *workspace.User {
	if o == nil {
		return nil
	}
	return &workspace.User{UID: o.User.UID, GID: o.User.GID, Groups: o.User.Groups, Home: o.Home}
}

// LookupOwner finds the user for a root caller's commands: the owner of the workspace, so that new
// files belong to that user. It is nil for any other caller.
func LookupOwner(ws *workspace.Workspace, c *Caller) *Owner {
	uid, gid := ws.Owner()
	if c.UID != 0 || uid == 0 {
		return nil
	}
	o := &Owner{User: shared.User{UID: uid, GID: gid}}
	number := strconv.FormatUint(uint64(uid), 10)
	account, err := user.LookupId(number)
	if err != nil {
		account = lookElsewhere(number, (&Writable{Roots: WritableRoots(ws)}).Around)
	}
	o.Name, o.Home = account.Username, account.HomeDir
	if n, err := strconv.ParseUint(account.Gid, 10, 32); err == nil {
		o.User.GID = uint32(n)
	}
	groups, _ := account.GroupIds()
	for _, g := range groups {
		if n, err := strconv.ParseUint(g, 10, 32); err == nil {
			o.User.Groups = append(o.User.Groups, uint32(n))
		}
	}
	return o
}

// showAccount returns /etc/passwd with a line for the caller, if the file has none, as with accounts in
// LDAP: many programs do not start for an unknown user.
func (m *Machine) showAccount() []view.Substitute {
	const file = "/etc/passwd"
	name := m.Caller.Getenv("USER")
	way := Follow(file)
	content, err := os.ReadFile(way.End)
	known := regexp.MustCompile(fmt.Sprintf("(?m)^[^:\n]*:[^:\n]*:%d:", m.Caller.UID))
	if m.Owner != nil || way.Err != nil || err != nil || name == "" || strings.ContainsFunc(name+m.Caller.Home, notInAccount) || known.Match(content) {
		return nil
	}
	content = fmt.Appendf(append(bytes.TrimRight(content, "\n"), '\n'), "%s:x:%d:%d::%s:/bin/sh\n", name, m.Caller.UID, os.Getegid(), m.Caller.Home)
	return []view.Substitute{{Path: way.End, At: file, Content: content, Why: view.OriginAccount}}
}

func notInAccount(r rune) bool { return r < ' ' || r == 0x7f || r == ':' }

// lookElsewhere returns the account of an owner who is not in /etc/passwd: git outside obeys files in that
// home. Without any account, as in containers, there is neither name nor home. It executes only the system's
// getent: a command of another workspace could have written one in PATH.
func lookElsewhere(number string, written func(string) string) *user.User {
	none := &user.User{}
	program, _, err := (&hostpath.Programs{Written: written}).Find("getent")
	if err != nil {
		return none
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	cmd := program.Command(ctx, "passwd", number)
	cmd.WaitDelay = time.Second
	line, err := cmd.Output()
	f := strings.Split(string(line), ":")
	if err != nil || len(f) != 7 || f[2] != number || !path.IsAbs(f[5]) {
		return none
	}
	if info, err := os.Stat(f[5]); err != nil || !info.IsDir() { // some are made at the user's login
		f[5] = ""
	}
	return &user.User{Username: f[0], Gid: f[3], HomeDir: f[5]}
}
