// Package keep has everything that outlives a command: the hosts of sbxhost serve, the processes of
// sessions, and the commands that show and end them.
package keep

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/approvals"
	"github.com/sbxhost/sbxhost/internal/serve"
	"github.com/sbxhost/sbxhost/internal/session"
)

// listedSession is a session, as -json prints it.
type listedSession struct {
	host.SessionInfo
	// Processes are those of a kept session, for -v.
	Processes []host.ProcessInfo `json:"processes,omitempty"`
}

func SessionsList(a *cli.App, fs *flag.FlagSet) func() error {
	asJSON, verbose := cli.JSONFlag(fs), fs.Bool("v", false, "")
	return func() error {
		found, err := host.Sessions(context.Background(), a.Environ, "")
		if err != nil {
			return err
		}
		for _, name := range fs.Args() {
			if !slices.ContainsFunc(found, func(s host.SessionInfo) bool { return s.Name == name }) {
				return noSuchSession(name)
			}
		}
		list, status := []listedSession{}, 0
		for _, s := range found {
			if fs.NArg() == 0 || slices.Contains(fs.Args(), s.Name) {
				s.Users = append([]int{}, s.Users...)
				one := listedSession{SessionInfo: s}
				if err := one.ask(a, *verbose); err != nil {
					status = a.Fail(err)
				}
				list = append(list, one)
			}
		}
		if len(list) == 0 && !*asJSON {
			a.Say("there are no named sessions")
			return nil
		}
		text := sessionsText(list, time.Now())
		for _, s := range list {
			if len(s.Processes) > 0 {
				text += processesText(s.Name, s.Processes)
			}
		}
		return cmp.Or(a.Result(*asJSON, list, text), cli.Exit(status))
	}
}

func sessionsText(list []listedSession, now time.Time) string {
	several := len(list) > 0 && slices.ContainsFunc(list, func(s listedSession) bool { return s.UID != list[0].UID })
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
			users = "process " + strings.ReplaceAll(strings.Trim(fmt.Sprint(s.Users), "[]"), " ", ", ")
		}
		row := []string{s.Name, size(s.Size), inforce.Age(now.Sub(s.LastUsed)), users, cli.Quote(s.Workspace)}
		if several {
			row = append(row, userName(s.UID))
		}
		rows = append(rows, row)
	}
	return cli.Table("", rows)
}

// size formats a number of bytes in the largest unit in which it is at least 1.
func size(n int64) string {
	if n < 0 {
		return "unknown"
	}
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

func SessionsRm(a *cli.App, fs *flag.FlagSet) func() error {
	asJSON := cli.JSONFlag(fs)
	return func() error {
		if fs.NArg() == 0 {
			return cli.Usage(fs, errors.New("name the sessions to remove"))
		}
		status := 0
		removed := []string{}
		for _, name := range fs.Args() {
			if err := removeSession(a, name); err != nil {
				status = a.Fail(err)
			} else {
				removed = append(removed, name)
			}
		}
		return cmp.Or(a.Result(*asJSON, removed, ""), cli.Exit(status))
	}
}

// Output of a session's background processes.
const (
	sessionLogName = "log"
	sessionLogOld  = "log.old"
)

// endPatience is how long an engine may take to end with its session.
const endPatience = 10 * time.Second

// endPoll is how often to try a session whose processes are about to end.
const endPoll = 20 * time.Millisecond

func removeSession(a *cli.App, name string) error {
	kept, err := endSession(a, name)
	if err != nil {
		return err
	}
	err = host.RemoveSession(a.Environ, "", name)
	for begin := time.Now(); kept && errors.Is(err, host.ErrSessionInUse) && time.Since(begin) < endPatience; { // by an engine that ends
		time.Sleep(endPoll)
		err = host.RemoveSession(a.Environ, "", name)
	}
	missing := errors.Is(err, iofs.ErrNotExist)
	if kept && missing {
		return nil
	}
	switch {
	case errors.Is(err, host.ErrSessionInUse):
		return cli.Hint(err, "it can be removed once no command runs in it")
	case err != nil && !missing:
		return err
	}
	// Commands without a sandbox have no session to remove, but approvals for one.
	revoked, err := endApprovals(a, name)
	if err == nil && missing && revoked == 0 {
		return noSuchSession(name)
	}
	return err
}

// endSession ends a session's processes and removes the session's files. It reports whether a
// server held the session.
func endSession(a *cli.App, name string) (held bool, err error) {
	dir, err := session.KeeperDir(a.LookupEnv, name, nil)
	if errors.Is(err, host.ErrSessionName) { // the name may be one of approvals
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("session %q: %w", name, err)
	}
	for begin := time.Now(); ; time.Sleep(endPoll) {
		h, err := serve.HolderOf(dir)
		if err == nil {
			held, err = true, h.EndSession()
			h.Close()
		}
		switch {
		case errors.Is(err, serve.ErrDeclined): // a command that shares no processes runs there
			return false, nil
		case err == nil, errors.Is(err, serve.ErrAbsent):
			err = serve.Remove(dir) // unless a server holds it, which is about to begin or end
		}
		switch {
		case err == nil:
			return held, nil
		case !errors.Is(err, serve.ErrServed):
			return false, fmt.Errorf("session %q: %w", name, err)
		case time.Since(begin) > endPatience:
			return false, cli.Hint(fmt.Errorf("session %q: a server that holds it does not answer", name), "sbxhost sessions list says which process; end that with kill")
		}
	}
}

// ask asks the server that has a session, and returns the answer.
func (s *listedSession) ask(a *cli.App, verbose bool) error {
	dir, err := session.KeeperDir(a.LookupEnv, s.Name, nil)
	if err != nil {
		return err
	}
	pid, holds, err := execute.HeldBy(dir, serve.SessionPatience)
	if errors.Is(err, serve.ErrAbsent) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("session %q: %w", s.Name, err)
	}
	if at := slices.Index(s.Users, pid); at >= 0 && holds.Commands == 0 && holds.Kept == "" {
		s.Users = slices.Delete(s.Users, at, at+1) // this process will give it up
		s.InUse = len(s.Users) > 0
	}
	if verbose {
		s.Processes = holds.Processes
	}
	return nil
}

func processesText(name string, list []host.ProcessInfo) string {
	rows := [][]string{{"PID", "HOST PID", "AGE", "MEMORY", "COMMAND"}}
	for _, p := range list {
		cmd := host.Cmd{Args: p.Args}
		rows = append(rows, []string{strconv.Itoa(p.PID), strconv.Itoa(p.HostPID), inforce.Age(time.Since(p.Started)), size(p.Memory), cli.Printable(cmd.String())})
	}
	return "\nIn " + name + ":\n" + cli.Table("  ", rows)
}

// SessionsLogs prints the output of background processes.
func SessionsLogs(a *cli.App, fs *flag.FlagSet) func() error {
	return func() error {
		if fs.NArg() == 0 {
			return cli.Usage(fs, errors.New("name a session"))
		}
		dir, err := session.KeeperDir(a.LookupEnv, fs.Arg(0), nil)
		if err != nil {
			return err
		}
		found := false
		for _, name := range []string{sessionLogOld, sessionLogName} {
			f, err := os.Open(filepath.Join(dir, name))
			if errors.Is(err, iofs.ErrNotExist) {
				continue
			}
			if err != nil {
				return err
			}
			found = true
			if !cli.IsTerminal(a.Stdout) {
				_, err = io.Copy(a.Stdout, f)
			} else if text, failed := io.ReadAll(f); failed != nil { // at most maxSessionLog
				err = failed
			} else {
				w := bufio.NewWriter(a.Stdout)
				cli.Escape(w, string(text), a.Color(a.Stdout))
				err = w.Flush()
			}
			f.Close()
			if err != nil {
				return err
			}
		}
		if _, err := os.Stat(dir); !found && err != nil {
			return cli.Hint(fmt.Errorf("session %q: nothing was kept", fs.Arg(0)), "sbxhost exec -session "+fs.Arg(0)+" -keep begins that")
		}
		return nil
	}
}

// endApprovals withdraws a session's approvals: the next session of that name is another one.
func endApprovals(a *cli.App, name string) (int, error) {
	store, err := a.Store()
	if err != nil {
		return 0, nil // nothing is approved
	}
	of := func(f *approvals.Approval) bool {
		return f.Scope == approvals.Session && f.Session == approvals.NamedSession(name)
	}
	// An unreadable or invalid store approves nothing.
	list, err := store.List()
	if err != nil || !slices.ContainsFunc(list, func(f approvals.Approval) bool { return of(&f) }) {
		return 0, nil
	}
	gone, err := store.Revoke(context.Background(), of)
	if err != nil {
		return 0, fmt.Errorf("what was approved for session %q is still approved: %w", name, err)
	}
	return len(gone), nil
}

func noSuchSession(name string) error {
	return cli.Hint(fmt.Errorf("there is no session %q", name), "sbxhost sessions list shows those there are")
}
