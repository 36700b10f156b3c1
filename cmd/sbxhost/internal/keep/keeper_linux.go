package keep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/execute"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/serve"
	"github.com/sbxhost/sbxhost/internal/session"
	"github.com/sbxhost/sbxhost/shared"
)

// keeper has a named session for its server: the Hosts in it, and the Host that holds its
// processes.
type keeper struct {
	name string
	dir  string // identifies the session
	log  *sessionLog
	lock *serve.Lock
	// fields of its server, under the server's mutex
	clients      int
	otherClients int           // clients that share no processes
	idling       *time.Timer   // runs without clients; nil at first
	ended        chan struct{} // set while it ends and afterwards; closed at its end

	mu    sync.Mutex
	over  bool
	setup *setup.Setup
	key   *hostKey
	host  *host.Host // nil before the first command
	users int

	// options of host, with the values of the latest client
	sets   map[string]host.Credential
	tokens map[string]string // the same, for the built-in sets
}

// enter adds a client to a session's keeper; the client may share the session's processes or not.
// If there is no keeper, it starts one, but only for a client that this server serves. Others get
// an error that says why.
func (s *server) enter(ctx context.Context, a *cli.App, name string, processes bool, apart error) (*keeper, error) {
	dir, err := session.KeeperDir(a.LookupEnv, name, nil)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.keepers[dir]
	if k != nil && k.ended == nil && k.lock.Lost() { // with the session's files, as by rm -r ~/.cache
		if k.clients > 0 { // what another process begins is a new one
			return nil, errors.New("the session's files were removed, and a command still runs in it")
		}
		s.mu.Unlock()
		s.endKeeper(k, true)
		s.mu.Lock()
		k = s.keepers[dir]
	}
	for ; k != nil && k.ended != nil; k = s.keepers[dir] {
		ended := k.ended
		s.mu.Unlock()
		select {
		case <-ended:
		case <-ctx.Done():
		}
		s.mu.Lock()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	switch {
	case k != nil:
	case apart != nil && !s.servesAnyone:
		return nil, apart
	case s.closed:
		return nil, errClosed
	default:
		lock, err := hold(a, name)
		if err != nil {
			return nil, err
		}
		k = &keeper{name: name, dir: dir, log: &sessionLog{path: filepath.Join(dir, sessionLogName)}, lock: lock}
		s.keepers[dir] = k
		s.all.Go(func() { s.accept(lock) })
	}
	if k.clients++; !processes {
		k.otherClients++
	} else if k.lock.AfterKill {
		k.lock.AfterKill = false
		a.Say(fmt.Sprintf("session %q: the session's processes ended, and new ones start: their server was killed", name))
	}
	if k.idling != nil {
		k.idling.Stop()
	}
	return k, nil
}

// hold takes the directory of a session's keeper. Whoever removes the session may remove that at any
// time, too.
func hold(a *cli.App, name string) (lock *serve.Lock, err error) {
	for range 10 {
		var dir string
		if dir, err = session.KeeperDir(a.LookupEnv, name, a.WritableDirs(host.Options{}, a.Getenv("XDG_CACHE_HOME"))); err == nil {
			lock, err = serve.Hold(dir)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return lock, err
}

// exit removes a client.
func (s *server) exit(k *keeper, processes bool) {
	idle, hosts := k.idle(), s.hosts.idle(k.dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		idle = max(idle, hosts)
	}
	if !processes {
		k.otherClients--
	}
	if k.clients--; k.clients == 0 {
		k.idling = time.AfterFunc(idle, func() { s.endKeeper(k, true) })
	}
}

// endKeeper ends the processes of a session. An idle end does nothing while the session has
// clients. It reports whether no command is left: one that shares no processes goes on.
func (s *server) endKeeper(k *keeper, idle bool) bool {
	s.mu.Lock()
	if idle && k.clients > 0 || k.ended != nil {
		ended := k.ended
		s.mu.Unlock()
		if ended != nil {
			<-ended
		}
		return true
	}
	if k.otherClients > 0 {
		s.mu.Unlock()
		return false
	}
	ended := make(chan struct{})
	k.ended = ended
	s.mu.Unlock()
	k.end()
	s.hosts.closeUnused(k.has)
	s.mu.Lock()
	k.lock.Release()
	delete(s.keepers, k.dir)
	s.rest()
	s.mu.Unlock()
	close(ended)
	return true
}

// has reports whether a Host without shared processes is one of the session.
func (k *keeper) has(h *cachedHost) bool { return h.session == k.dir }

// makeWay closes the Hosts of a session that no command and no process uses, for a command that needs
// another one: a session has one engine. It returns the sandbox of a kept session.
func (s *server) makeWay(k *keeper) (sandbox string) {
	s.hosts.closeUnused(k.has)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.host != nil && k.users == 0 && !k.host.HasProcesses() {
		k.host.Close()
		k.host = nil
	}
	if k.host == nil {
		return ""
	}
	return k.setup.Sandbox
}

// errInUse is why a session cannot be removed.
var errInUse = errors.New("a command runs in it")

// endKeepers ends all of them.
func (s *server) endKeepers() {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.keepers))
	s.mu.Unlock()
	var ends sync.WaitGroup
	for _, k := range all {
		ends.Go(func() { s.endKeeper(k, false) })
	}
	ends.Wait()
}

// session answers a request about a session: it lists the session's processes, or ends them. It
// gives the session up if nothing runs in it.
func (s *server) session(of *serve.Session) (string, error) {
	s.mu.Lock()
	k, commands := s.keepers[of.Dir], 0
	if k != nil {
		commands = k.clients
	}
	s.mu.Unlock()
	switch {
	case k == nil:
		return "", nil
	case of.End:
		if !s.endKeeper(k, false) {
			return "", errInUse
		}
		return "", nil
	}
	s.makeWay(k)
	k.mu.Lock()
	defer k.mu.Unlock()
	holds := execute.HeldSession{Commands: commands}
	if k.host != nil {
		var err error
		holds.Kept = k.setup.Sandbox
		if holds.Processes, err = k.host.Processes(); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(holds)
	return string(text), err
}

// take returns the Host, for commands of the setup that it was made with.
func (k *keeper) take(ctx context.Context, a *cli.App, s *setup.Setup) (*execute.UsedHost, error) {
	s = sharedSetup(s)
	k.mu.Lock()
	defer k.mu.Unlock()
	def := s.Options.Sandboxes[s.Sandbox]
	if !def.Session.Processes {
		return nil, fmt.Errorf("sandbox %q keeps no processes: give -keep, or write session { processes = true }", s.Sandbox)
	}
	if k.over {
		return nil, host.ErrClosed
	}
	if k.host != nil && len(def.Publish) == 0 && (k.users > 0 || k.host.HasProcesses()) {
		def.Publish = k.setup.Options.Sandboxes[s.Sandbox].Publish // a later command need not repeat the flag
		s.Options.Sandboxes[s.Sandbox] = def
	}
	sets := k.renewedCredentials(s.Options.Credentials)
	key := keeperKey(s, sets)
	if k.host != nil && !k.key.equal(key) && k.users == 0 && !k.host.HasProcesses() {
		k.host.Close()
		k.host, sets = nil, s.Options.Credentials
		key = keeperKey(s, sets)
	}
	if k.host == nil {
		var err error
		if k.host, err = key.newHost(ctx, s.Options); err != nil {
			return nil, err
		}
		k.setup, k.key, k.tokens = s, key, map[string]string{}
	} else if err := k.same(s, key); err != nil {
		return nil, err
	}
	var tokens []string
	for _, name := range []string{"GH_TOKEN", "GITHUB_TOKEN"} {
		if k.tokens[name] = cmp.Or(a.Getenv(name), k.tokens[name]); k.tokens[name] != "" {
			tokens = append(tokens, name+"="+k.tokens[name])
		}
	}
	if err := k.host.Renew(sets, tokens); err != nil {
		return nil, err
	}
	for _, name := range def.Credentials {
		if sets[name].Value != s.Options.Credentials[name].Value {
			a.Say(fmt.Sprintf("credential %q: a variable is not set; session %q keeps the value", name, k.name))
		}
	}
	k.sets = sets
	k.users++
	return &execute.UsedHost{Host: k.host, Done: func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.users--
		if k.over && a.Ended == syscall.SIGKILL { // other ends have an error that says it
			a.Say(fmt.Sprintf("session %q was ended, and the command with it", k.name))
		}
	}}, nil
}

// keeperKey leaves out the individual parts of each command, its environment and directory, and the
// renewed values.
func keeperKey(s *setup.Setup, sets map[string]host.Credential) *hostKey {
	o := s.Options
	o.Environ, o.Dir, o.Usage, o.Credentials = nil, "", nil, map[string]host.Credential{}
	for name, set := range sets {
		set.Value, set.Env = hidden(set.Value), maps.Clone(set.Env)
		for variable, value := range set.Env {
			set.Env[variable] = hidden(value)
		}
		o.Credentials[name] = set
	}
	return key(s, o)
}

// hidden stands for every secret.
func hidden(s shared.Secret) shared.Secret {
	if s != "" {
		s = "there"
	}
	return s
}

// renewedCredentials returns the client's credentials. A credential keeps its value if the client
// does not have its variables: the environment is the one of the session's first client.
func (k *keeper) renewedCredentials(sets map[string]host.Credential) map[string]host.Credential {
	sets = maps.Clone(sets)
	for name, set := range sets {
		if had, ok := k.sets[name]; ok && set.Value == "" && maps.EqualFunc(set.Env, had.Env, func(shared.Secret, shared.Secret) bool { return true }) {
			set.Env, set.Placeholder, set.Value = had.Env, had.Placeholder, had.Value
			sets[name] = set
		}
	}
	return sets
}

// same refuses, by name, values that would not hold for the running processes.
func (k *keeper) same(s *setup.Setup, key *hostKey) error {
	refuse := func(format string, args ...any) error {
		return cli.Hint(fmt.Errorf("session %q %s", k.name, fmt.Sprintf(format, args...)), "sbxhost sessions rm "+k.name+" ends it; or use another session")
	}
	was, is := k.setup.Options.Sandboxes[k.setup.Sandbox], s.Options.Sandboxes[s.Sandbox]
	for _, v := range [...][3]string{{"sandbox", k.setup.Sandbox, s.Sandbox}, {"engine", cmp.Or(was.Engine, "auto"), cmp.Or(is.Engine, "auto")}} {
		if v[1] != v[2] {
			return refuse("runs %s %q, and this command asks for %q", v[0], v[1], v[2])
		}
	}
	if attribute := was.Differs(&is); attribute != "" {
		return refuse("was begun with another %s than this command asks for", attribute)
	}
	before, now := k.key.setup.Options.Credentials, key.setup.Options.Credentials
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if had, ok := before[name]; ok && !reflect.DeepEqual(had, now[name]) {
			return refuse("was begun with another credential %q than %s has now", name, setup.NameOf(s.File))
		}
	}
	if !k.key.equal(key) {
		return refuse("was begun with another configuration than %s is now, or with other variables that configure sbxhost", setup.NameOf(s.File))
	}
	return nil
}

// idle is how long the keeper stays without a command: no time if it holds nothing.
func (k *keeper) idle() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.host == nil || !k.host.HasProcesses() {
		return 0
	}
	return cmp.Or(k.setup.Options.Sandboxes[k.setup.Sandbox].Session.Idle, host.DefaultIdle)
}

// end ends everything that runs.
func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if k.host != nil {
		k.host.Close()
		k.host = nil
	}
	k.log.close()
}

// adapt gives a command its client's directory and variables.
func (k *keeper) adapt(a *cli.App, h *host.Host, cmd *host.Cmd) error {
	if root := h.Workspace().Root(); cmd.Dir == "" {
		if dir, err := filepath.EvalSymlinks(a.Dir); err != nil || !paths.Inside(root, dir) {
			return fmt.Errorf("session %q works on %s, in which this directory does not lie", k.name, cli.Quote(root))
		}
		cmd.Dir = a.Dir
	}
	asked := cmd.Env
	cmd.Env = make([]string, 0, len(asked))
	for _, v := range asked {
		if !strings.Contains(v, "=") {
			value, ok := a.LookupEnv(v)
			if !ok {
				continue // otherwise it would be the first client's
			}
			v += "=" + value
		}
		cmd.Env = append(cmd.Env, v)
	}
	cmd.Background = &loggedCommand{k.log, cmd.String()}
	return nil
}

// maxSessionLog is the limit of each of the two files, in bytes.
const maxSessionLog = 4 << 20

// sessionLog is the output of background processes after their commands have ended.
type sessionLog struct {
	path string

	mu   sync.Mutex
	file *os.File
	size int64
	last *loggedCommand
}

// loggedCommand writes the later output of one command.
type loggedCommand struct {
	log  *sessionLog
	name string
}

func (l *sessionLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

func (c *loggedCommand) Write(p []byte) (int, error) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.open(); err != nil {
		return len(p), nil // the command must not learn of it
	}
	text := p
	if l.last != c {
		text = slices.Concat(fmt.Appendf(nil, "==> %s <==\n", c.name), p)
		l.last = c
	}
	n, _ := l.file.Write(text)
	l.size += int64(n)
	return len(p), nil
}

// open opens a file that is not full. l.mu is held.
func (l *sessionLog) open() (err error) {
	if l.file != nil && l.size < maxSessionLog {
		return nil
	}
	if l.file != nil {
		l.file.Close()
		l.file, l.last = nil, nil
		os.Rename(l.path, filepath.Join(filepath.Dir(l.path), sessionLogOld))
	}
	l.size = 0
	l.file, err = os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC|syscall.O_NOFOLLOW, 0o600)
	return err
}
