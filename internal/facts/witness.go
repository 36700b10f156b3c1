//go:build unix

package facts

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/internal/view"
)

const mayHoldCredentials = "it can contain credentials"

// WhyNotProposed says why no hint may propose a path: the path can contain credentials, or gives a way
// out of the sandbox. It is "" for every other path.
func (m *Machine) WhyNotProposed(p string) string {
	secret := func(home string) bool { return view.MayHoldSecrets(home, p) }
	// /home and /Users contain homes of others.
	if base := filepath.Base(p); slices.ContainsFunc(m.homes(), secret) || p == "/home" || p == "/Users" || view.Sensitive(base) || slices.Contains(credentialFiles[:], base) {
		return mayHoldCredentials
	}
	for _, s := range m.controlSockets() {
		if strings.HasSuffix(s.Path, "/") && paths.Inside(filepath.Clean(s.Path), p) || paths.Inside(p, filepath.Clean(s.Path)) {
			return "it gives " + s.Gives
		}
	}
	return ""
}

// credentialFiles are names of files in which tools keep credentials, in any directory.
var credentialFiles = [...]string{
	".netrc", "_netrc", ".npmrc", ".yarnrc.yml", ".pypirc", ".git-credentials", ".pgpass", ".my.cnf", ".vault-token", ".terraformrc",
	"credentials", "credentials.toml", "credentials.json", "credentials.tfrc.json", "hosts.yml", "settings.xml", "gradle.properties", "id_rsa", "id_ed25519",
	"shadow", "gshadow", "sudoers", "krb5.keytab",
}

// Program finds a program as the caller's shell would, by a name or an absolute path; else "".
func (w *Witness) Program(name string) string {
	dirs := filepath.SplitList(w.Caller.Getenv("PATH"))
	if strings.Contains(name, "/") {
		dirs = []string{"/"}
	}
	for _, dir := range dirs {
		p := filepath.Join(dir, name)
		if info, err := os.Stat(p); err == nil && name != "" && filepath.IsAbs(dir) && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// Listens reports whether /proc lists a process that listens on a TCP port of this machine: a socket
// in that state, without another end.
func (w *Witness) Listens(port uint16) bool {
	v4, _ := os.ReadFile("/proc/self/net/tcp")
	v6, _ := os.ReadFile("/proc/self/net/tcp6")
	return regexp.MustCompile(fmt.Sprintf(":%04X 0+:0000 0A ", port)).Match(slices.Concat(v4, v6))
}

// Witness answers questions about this machine for denials.
type Witness struct {
	*Machine
	CallerEnviron  []string          // the caller's environment
	CommandEnviron []string          // the command's
	DroppedDirs    map[string]string // of DroppedFromPath
}

func (w *Witness) Follow(p string) view.Way { return Follow(p) }

// Interpreter returns the program that the first line of a script names; "" for none.
func (w *Witness) Interpreter(p string) string {
	if words, _ := hostpath.Interpreter(p); len(words) > 0 && filepath.IsAbs(words[0]) {
		return filepath.Clean(words[0])
	}
	return ""
}

// Dropped says why a directory of the caller's PATH is not in the command's; else "".
func (w *Witness) Dropped(dir string) string { return w.DroppedDirs[dir] }

// Variable reports whether the caller has a variable that the command lacks.
func (w *Witness) Variable(name string) bool {
	_, has := valueIn(w.CallerEnviron, name)
	_, passed := valueIn(w.CommandEnviron, name)
	return has && !passed
}
