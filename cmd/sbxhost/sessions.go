package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/approvals"
	"github.com/sbxhost/sbxhost/host"
)

// sessionsCommand is what its subcommands have in common, and the help for it.
type sessionsCommand struct{ *app }

func (*sessionsCommand) Synopsis() string   { return "List and remove named sessions" }
func (*sessionsCommand) takesCommand() bool { return false }
func (*sessionsCommand) Run(_ []string) int { return statusHelp }

func (*sessionsCommand) Help() string {
	return `Usage: sbxhost sessions SUBCOMMAND [FLAGS] [NAME...]

List and remove named sessions. A session keeps what commands write to their home,
to /tmp where workspace.temp is set, to the workspace's extra readable directories
and to toolchains. Without a name it ends with the command; "sbxhost exec -session
NAME", or the variable SBXHOST_SESSION, makes one that the next command of the same
workspace finds again. Nobody having used it for seven days, it is removed.`
}

// sessionsListCommand lists sessions.
type sessionsListCommand struct{ *app }

func (*sessionsListCommand) Synopsis() string   { return "List the named sessions there are" }
func (*sessionsListCommand) takesCommand() bool { return false }

func (*sessionsListCommand) Help() string {
	return `Usage: sbxhost sessions list [-json] [NAME...]

List the named sessions there are, or those that are named: the space that each
takes, when it was last used, the processes that use it, and its workspace. For
root, those that root has made for other users are among them. Before a command
may run, each of the home and /tmp of its session may hold limits.temp_size, or
4 GiB where that is not set: what it holds then is not bounded.

Exit status: 0; 125 when there is no session of a name that was given.`
}

// listedSession is a session as -json gives it.
type listedSession struct {
	Name      string    `json:"name"`
	Workspace string    `json:"workspace"`
	Dir       string    `json:"dir"`
	UID       uint32    `json:"uid"`
	Size      int64     `json:"size"` // bytes
	LastUsed  time.Time `json:"last_used"`
	InUse     bool      `json:"in_use"`
	Users     []int     `json:"users"` // processes; can be empty for one in use
}

// Run implements subcommand.
func (c *sessionsListCommand) Run(args []string) int {
	fs := newFlags("sessions list")
	asJSON := fs.Bool("json", false, "")
	if status, ok := c.parse(fs, c, args); !ok {
		return status
	}
	found, err := host.Sessions(context.Background(), c.environ, "")
	if err != nil {
		return c.fail(err)
	}
	for _, name := range fs.Args() {
		if !slices.ContainsFunc(found, func(s host.SessionInfo) bool { return s.Name == name }) {
			return c.fail(noSuchSession(name))
		}
	}
	list := []listedSession{}
	for _, s := range found {
		if fs.NArg() == 0 || slices.Contains(fs.Args(), s.Name) {
			list = append(list, listedSession{s.Name, s.Workspace, s.Dir, s.UID, s.Size, s.LastUsed, s.InUse, append([]int{}, s.Users...)})
		}
	}
	if *asJSON {
		return c.printJSON(list)
	}
	if len(list) == 0 {
		c.say("there are no named sessions")
		return 0
	}
	return c.print(sessionsText(list, time.Now()))
}

func sessionsText(list []listedSession, now time.Time) string {
	several := slices.ContainsFunc(list, func(s listedSession) bool { return s.UID != list[0].UID })
	rows := [][]string{{"NAME", "SIZE", "LAST USED", "IN USE BY", "WORKSPACE"}}
	if several {
		rows[0] = append(rows[0], "USER")
	}
	for _, s := range list {
		users := "nobody"
		if s.InUse {
			users = "a process"
		}
		if len(s.Users) > 0 {
			pids := make([]string, len(s.Users))
			for i, pid := range s.Users {
				pids[i] = strconv.Itoa(pid)
			}
			users = "process " + strings.Join(pids, ", ")
		}
		row := []string{s.Name, size(s.Size), age(now.Sub(s.LastUsed)), users, quote(s.Workspace)}
		if several {
			row = append(row, userName(s.UID))
		}
		rows = append(rows, row)
	}
	var b strings.Builder
	table(&b, "", rows)
	return b.String()
}

// size is a number of bytes in the largest unit that leaves some of it.
func size(n int64) string {
	for i, unit := range [...]string{"TiB", "GiB", "MiB", "KiB"} {
		if one := int64(1) << (10 * (4 - i)); n >= one {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(one), unit)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func userName(uid uint32) string {
	text := strconv.FormatUint(uint64(uid), 10)
	if account, err := user.LookupId(text); err == nil {
		return account.Username
	}
	return text
}

// sessionsRmCommand removes sessions.
type sessionsRmCommand struct{ *app }

func (*sessionsRmCommand) Synopsis() string   { return "Remove named sessions" }
func (*sessionsRmCommand) takesCommand() bool { return false }

func (*sessionsRmCommand) Help() string {
	return `Usage: sbxhost sessions rm [-json] NAME...

Remove named sessions with all that they keep, and what was approved for them. One
that a process uses stays, and is an error. With -json the names of those removed
are written as a list.

Exit status: 0 when all are gone, else 125.`
}

// Run implements subcommand.
func (c *sessionsRmCommand) Run(args []string) int {
	flags := newFlags("sessions rm")
	asJSON := flags.Bool("json", false, "")
	if status, ok := c.parse(flags, c, args); !ok {
		return status
	}
	if flags.NArg() == 0 {
		return c.usage(flags, errors.New("name the sessions to remove"))
	}
	status := 0
	removed := []string{}
	for _, name := range flags.Args() {
		err := host.RemoveSession(c.environ, "", name)
		gone := 0
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			n, revokeErr := c.endApprovals(name)
			if gone = n; revokeErr != nil {
				err = revokeErr
			}
		}
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist) && gone > 0: // without a sandbox, none has been made
			removed = append(removed, name)
			continue
		case errors.Is(err, fs.ErrNotExist):
			err = noSuchSession(name)
		case errors.Is(err, host.ErrSessionInUse):
			err = &hinted{err, "sbxhost sessions list says by whom; it can be removed once that has ended"}
		}
		status = c.fail(err)
	}
	if *asJSON {
		if failed := c.printJSON(removed); failed != 0 {
			return failed
		}
	}
	return status
}

// endApprovals takes back what was approved for a session: the next one of that
// name is another.
func (a *app) endApprovals(name string) (int, error) {
	store, err := a.store()
	if err != nil {
		return 0, nil // nothing is approved
	}
	of := func(f *approvals.Approval) bool {
		return f.Scope == approvals.Session && f.Session == approvals.NamedSession(name)
	}
	// A store that cannot be read, or is no store, approves nothing.
	list, err := store.List()
	if err != nil || !slices.ContainsFunc(list, func(f approvals.Approval) bool { return of(&f) }) {
		return 0, nil
	}
	gone, err := store.Revoke(context.Background(), of)
	if err != nil {
		return 0, fmt.Errorf("what was approved for session %q holds still: %w", name, err)
	}
	return len(gone), nil
}

func noSuchSession(name string) error {
	return &hinted{fmt.Errorf("there is no session %q", name), "sbxhost sessions list shows those there are"}
}

// sessionOptions says which session a command line asks for.
func (a *app) sessionOptions(f *runFlags) host.SessionOptions {
	name := f.session
	if name == "" {
		name = a.getenv("SBXHOST_SESSION")
	}
	return host.SessionOptions{Name: name, Once: true}
}

// sessionHint says what to do about a session that cannot be used.
func sessionHint(err error) error {
	switch {
	case errors.Is(err, host.ErrSessionWorkspace):
		return &hinted{err, "sbxhost sessions rm removes it"}
	case errors.Is(err, host.ErrSessionName):
		return &hinted{err, "it comes from -session or the variable SBXHOST_SESSION"}
	}
	return err
}

// sessionNames completes the names of sessions.
func (a *app) sessionNames() []string {
	found, err := host.Sessions(context.Background(), a.environ, "")
	if err != nil {
		return nil
	}
	names := make([]string, len(found))
	for i, s := range found {
		names[i] = s.Name
	}
	return names
}
