//go:build unix

package facts

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/view"
)

// accounts are the users and groups of commands that the machine's files lack: those of a directory
// (sssd, LDAP) or of systemd. Commands cannot reach the services that know them.
type accounts struct {
	mu    sync.Mutex
	lines map[string]account // by "passwd 1000"
}

type account struct {
	line  string // may be empty
	until time.Time
}

// accountFor is how long a Machine caches an account, or its absence. accountTimeout is how long a
// command waits for it.
const (
	accountFor     = 10 * time.Minute
	accountTimeout = 2 * time.Second
)

// databases are the files of users and groups, with the number of fields in their lines. In both,
// the third field is the number.
var databases = [...]struct {
	name   string
	fields int
}{{"passwd", 7}, {"group", 4}}

// showAccounts returns the files for commands if the machine's own lack their user. With planning
// it executes no program.
func (m *Machine) showAccounts(ctx context.Context, planning bool) (list []view.Substitute) {
	group := uint32(os.Getegid())
	var others []uint32
	if m.Owner != nil {
		group, others = m.Owner.User.GID, m.Owner.User.Groups
	}
	for i, ids := range [...][]uint32{{m.uid()}, append([]uint32{group}, others...)} {
		file := "/etc/" + databases[i].name
		way := Follow(file)
		content, err := os.ReadFile(way.End)
		if way.Err != nil || err != nil {
			continue // the sandbox has none either
		}
		var more []string
		for _, id := range ids {
			if number := strconv.FormatUint(uint64(id), 10); !hasNumber(content, number) {
				if line := m.account(ctx, i, number, planning); line != "" {
					more = append(more, line)
				}
			}
		}
		if more != nil {
			content = append(bytes.TrimRight(content, "\n"), '\n')
			content = append(content, strings.Join(more, "\n")+"\n"...)
			list = append(list, view.Substitute{Path: way.End, At: file, Content: content, Why: view.OriginAccounts})
		}
	}
	return list
}

// hasNumber reports whether a database has a line for a number.
func hasNumber(content []byte, number string) bool {
	for line := range bytes.Lines(content) {
		if f := bytes.SplitN(line, []byte(":"), 4); len(f) == 4 && string(f[2]) == number {
			return true
		}
	}
	return false
}

// account returns the line of a number, or "".
func (m *Machine) account(ctx context.Context, database int, number string, planning bool) string {
	db := databases[database]
	m.accounts.mu.Lock()
	defer m.accounts.mu.Unlock()
	if known, ok := m.accounts.lines[db.name+number]; ok && time.Now().Before(known.until) || planning {
		return known.line
	}
	ctx, cancel := context.WithTimeout(ctx, accountTimeout)
	defer cancel()
	out, err := getent(ctx, m.written, db.name, number) // after an error the number has no line
	line := ""
	if err == nil {
		line = checkedLine(out, number, db.fields)
	}
	if ctx.Err() == nil {
		if m.accounts.lines == nil {
			m.accounts.lines = map[string]account{}
		}
		m.accounts.lines[db.name+number] = account{line, time.Now().Add(accountFor)}
	}
	return line
}

// getent asks for an entry of a database. It executes only the system's program: a command of
// another workspace could have written one in PATH.
func getent(ctx context.Context, written func(string) string, database, key string) (string, error) {
	program, _, err := (&hostpath.Programs{Written: written}).Find("getent")
	if err != nil {
		return "", err
	}
	cmd := program.Command(ctx, database, key)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return string(out), err
}

// lookElsewhere finds an owner who is not in the machine's files.
func (o *Owner) lookElsewhere(written func(string) string) {
	ctx, cancel := context.WithTimeout(context.Background(), accountTimeout)
	defer cancel()
	number := strconv.FormatUint(uint64(o.User.UID), 10)
	out, err := getent(ctx, written, "passwd", number)
	if err != nil {
		return
	}
	f := strings.Split(checkedLine(out, number, databases[0].fields), ":")
	if len(f) != databases[0].fields {
		return
	}
	o.Name = f[0]
	if info, err := os.Stat(f[5]); err == nil && info.IsDir() { // some are made at the user's login
		o.Home = f[5]
	}
	if gid, err := strconv.ParseUint(f[3], 10, 32); err == nil {
		o.User.GID = uint32(gid)
	}
	groups, _ := getent(ctx, written, "initgroups", o.Name) // otherwise those of the files
	for _, group := range strings.Fields(groups) {
		if gid, err := strconv.ParseUint(group, 10, 32); err == nil && group != o.Name {
			o.User.Groups = append(o.User.Groups, uint32(gid))
		}
	}
}

// checkedLine is a line of getent's output without the password and a group's members; "" if it is
// invalid, or about another number.
func checkedLine(text, number string, fields int) string {
	text = strings.TrimSuffix(text, "\n")
	f := strings.Split(text, ":")
	if len(f) != fields || f[0] == "" || f[2] != number || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	if f[1] = "x"; fields == 4 {
		f[3] = ""
	}
	return strings.Join(f, ":")
}
