//go:build unix

package facts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/internal/env"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// credential returns what a set consists of, and what is no secret besides. Of a set that is passed on, it
// returns the variables that are set; in any other, each gets a placeholder. The error is why it is unavailable.
func (m *Machine) credential(ctx context.Context, name string, c view.Credential, origin string, planning bool) (list []view.Credential, more []env.Secret, err error) {
	if name == view.CredentialGitHub || name == view.CredentialGitHubCLI {
		return m.gitHub(ctx, origin, name == view.CredentialGitHubCLI, planning)
	}
	unset := maps.Clone(c.Env)
	maps.DeleteFunc(unset, func(_ string, secret shared.Secret) bool { return secret != "" })
	if c.Env = maps.Clone(c.Env); c.Value == "" {
		err = fmt.Errorf("%s not set, so commands are not authenticated", strings.Join(slices.Sorted(maps.Keys(unset)), ", "))
	}
	maps.DeleteFunc(c.Env, func(_ string, secret shared.Secret) bool { return c.Pass && secret == "" })
	return []view.Credential{c}, nil, err
}

// gitHub returns a credential for each token, whose host is the server's address, and the other variables.
// With ask, gh may be asked for a token.
func (m *Machine) gitHub(ctx context.Context, origin string, ask, planning bool) (list []view.Credential, more []env.Secret, err error) {
	server := m.Caller.Getenv("GITHUB_SERVER_URL")
	address, err := gitHubHost(server)
	if err != nil {
		return nil, nil, err
	}
	add := func(variable, token string) {
		secret := shared.Secret(token)
		list = append(list, view.Credential{Hosts: []string{address}, Env: map[string]shared.Secret{variable: secret}, Placeholder: view.Placeholder(variable), Value: secret})
	}
	for _, name := range [...]string{"GH_TOKEN", "GITHUB_TOKEN"} { // in gh's order
		if value := m.token(name); value != "" {
			add(name, value)
		}
	}
	if len(list) == 0 && !ask {
		return nil, nil, errors.New("neither GH_TOKEN nor GITHUB_TOKEN is set, so commands are not authenticated")
	} else if len(list) == 0 {
		token := ""
		if !planning {
			if token, err = m.ghToken.get(ctx, m, address); err != nil {
				return nil, nil, err
			}
		}
		add("GH_TOKEN", token)
	}
	set := func(name, value string) { more = append(more, env.Secret{Name: name, Value: value, Origin: origin}) }
	if server != "" {
		set("GITHUB_SERVER_URL", server)
	}
	// A helper, which git asks only for that server. A header in git's configuration would follow a
	// redirect to another server, and git passes a URL to its programs as an argument. The empty
	// helper before it removes the helpers of a bound configuration, which would receive the token
	// and store it in a file.
	for i, helper := range [...]string{"", gitHubHelper} {
		set(fmt.Sprintf("GIT_CONFIG_KEY_%d", i), "credential.https://"+address+".helper")
		set(fmt.Sprintf("GIT_CONFIG_VALUE_%d", i), helper)
	}
	set("GIT_CONFIG_COUNT", "2")
	return list, more, nil
}

// passToken adds the token that only gh has to the variables of a set that is passed on. It is not for a plan,
// nor for a command that nobody has approved yet.
func (m *Machine) passToken(ctx context.Context, vars []env.Secret) ([]env.Secret, error) {
	i := slices.IndexFunc(vars, func(v env.Secret) bool { return v.Name == "GH_TOKEN" && v.Value == "" })
	if i < 0 {
		return vars, nil
	}
	address, err := gitHubHost(m.Caller.Getenv("GITHUB_SERVER_URL"))
	if err == nil {
		vars = slices.Clone(vars) // a plan has them too
		vars[i].Value, err = m.ghToken.get(ctx, m, address)
	}
	if err != nil {
		origin := vars[i].Origin
		vars = slices.DeleteFunc(vars, func(v env.Secret) bool { return v.Origin == origin })
	}
	return vars, err
}

// gitHubHelper is a credential helper of git, a shell function that reads the token from its
// environment. Its output goes to git through a pipe.
const gitHubHelper = `!f() { test "$1" = get && printf 'username=x-access-token\npassword=%s\n' "${GH_TOKEN:-$GITHUB_TOKEN}"; }; f`

// gitHubHost is the address of a GitHub server, from its URL, as CI systems set it; empty means
// github.com.
func gitHubHost(server string) (string, error) {
	if server == "" {
		return "github.com", nil
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" ||
		strings.ContainsAny(u.Host, "*\"\\") { // in a key of git, a URL has wildcards
		return "", errors.New("GITHUB_SERVER_URL is not of the form https://HOST, and the token goes nowhere else")
	}
	return u.Host, nil
}

// ghToken caches the output of `gh auth token`, which takes longer than many commands.
type ghToken struct {
	mu    sync.Mutex
	token string
	until time.Time
}

// get asks for the token of that server: gh may be logged in to another one.
func (g *ghToken) get(ctx context.Context, m *Machine, server string) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token != "" && time.Now().Before(g.until) {
		return g.token, nil
	}
	gh, _, err := m.Programs().Find("gh")
	if err != nil {
		return "", fmt.Errorf("neither GH_TOKEN nor GITHUB_TOKEN is set, and there is no gh to ask: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	cmd := gh.Command(ctx, "auth", "token", "--hostname", server)
	for _, name := range [...]string{"HOME", "XDG_CONFIG_HOME", "GH_CONFIG_DIR", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"} {
		if value, ok := m.Caller.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	token := string(bytes.TrimSpace(out))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("gh auth token: %w", ctx.Err())
	case err != nil || token == "" || strings.ContainsAny(token, " \t\r\n\x00"): // never show the output: it may be the token
		return "", errors.New("gh auth token printed none for " + server + ": log in with gh auth login")
	}
	g.token, g.until = token, time.Now().Add(5*time.Minute)
	return token, nil
}

// agentSocket is the path of the caller's ssh-agent, as spelled.
func (m *Machine) agentSocket() (string, error) {
	socket := m.Caller.Getenv("SSH_AUTH_SOCK")
	switch {
	case m.Owner != nil:
		return "", fmt.Errorf("commands run as the workspace's owner, user %d, who cannot use the agent of root", m.Owner.User.UID)
	case !filepath.IsAbs(socket):
		return "", errors.New("SSH_AUTH_SOCK is not set, or not absolute, so there is no ssh-agent")
	case Follow(socket).Kind != view.Socket:
		return "", fmt.Errorf("SSH_AUTH_SOCK: %s is not a socket", hostpath.Quote(socket))
	}
	return socket, nil
}
