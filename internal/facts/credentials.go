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

// Credentials returns the variables of a definition's credential sets, and notes on unavailable
// ones. With planning it executes no program, and such a program's token is empty.
func (m *Machine) Credentials(ctx context.Context, names []string, planning bool) (vars []env.Secret, notes []string) {
	for _, name := range names {
		origin := fmt.Sprintf("credentials %q", name)
		switch name {
		case view.CredentialGitHub, view.CredentialGitHubCLI:
			found, _, err := m.gitHub(ctx, origin, name == view.CredentialGitHubCLI, planning)
			if err != nil {
				notes = append(notes, fmt.Sprintf("credentials: %s: %v", name, err))
			}
			vars = append(vars, found...)
		case view.CredentialSSHAgent:
			if socket, err := m.agentSocket(); err == nil {
				vars = append(vars, env.Secret{Name: "SSH_AUTH_SOCK", Value: socket, Origin: origin})
			}
		default:
			set := m.Sets()[name]
			if set.Value == "" {
				notes = append(notes, unset(name, &set))
			}
			for _, variable := range slices.Sorted(maps.Keys(set.Env)) {
				if value := string(set.Env[variable]); value != "" {
					vars = append(vars, env.Secret{Name: variable, Value: value, Origin: origin})
				}
			}
		}
	}
	return vars, notes
}

// unset is the note about an unavailable set.
func unset(name string, set *view.Credential) string {
	variables := maps.Clone(set.Env)
	maps.DeleteFunc(variables, func(_ string, secret shared.Secret) bool { return secret != "" })
	return fmt.Sprintf("%s: %s: %s not set, so commands are not authenticated", view.OriginInject, name, strings.Join(slices.Sorted(maps.Keys(variables)), ", "))
}

// gitHub returns the variables of a token and the server's address, or why there is no token. With ask,
// gh may be asked for it.
func (m *Machine) gitHub(ctx context.Context, origin string, ask, planning bool) (vars []env.Secret, address string, err error) {
	secret := func(name, value string) env.Secret { return env.Secret{Name: name, Value: value, Origin: origin} }
	for _, name := range tokenVariables {
		if value := m.token(name); value != "" {
			vars = append(vars, secret(name, value))
		}
	}
	server, _ := m.Caller.LookupEnv("GITHUB_SERVER_URL")
	if address, err = gitHubHost(server); err != nil {
		return nil, "", err
	}
	if len(vars) == 0 && !ask {
		return nil, "", errors.New("neither GH_TOKEN nor GITHUB_TOKEN is set, so commands are not authenticated")
	} else if len(vars) == 0 {
		token := ""
		if !planning {
			if token, err = m.ghToken.get(ctx, m, address); err != nil {
				return nil, "", err
			}
		}
		vars = append(vars, secret("GH_TOKEN", token))
	}
	key := "credential.https://" + address + ".helper"
	if server != "" {
		vars = append(vars, secret("GITHUB_SERVER_URL", server))
	}
	// A helper, which git asks only for that server. A header in git's configuration would follow a
	// redirect to another server, and git passes a URL to its programs as an argument. The empty
	// helper before it removes the helpers of a bound configuration, which would receive the token
	// and store it in a file.
	for i, helper := range [...]string{"", gitHubHelper} {
		vars = append(vars, secret(fmt.Sprintf("GIT_CONFIG_KEY_%d", i), key), secret(fmt.Sprintf("GIT_CONFIG_VALUE_%d", i), helper))
	}
	return append(vars, secret("GIT_CONFIG_COUNT", "2")), address, nil
}

// tokenVariables are the variables of a token, in gh's order.
var tokenVariables = [...]string{"GH_TOKEN", "GITHUB_TOKEN"}

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
	case err != nil:
		return "", errors.New("gh auth token printed none for " + server + ": log in with gh auth login") // never show the output: it may be the token
	case token == "" || strings.ContainsAny(token, " \t\r\n\x00"):
		return "", errors.New("gh auth token printed something that is not a token")
	}
	g.token, g.until = token, time.Now().Add(5*time.Minute)
	return token, nil
}

// agentSocket is the resolved path of the caller's ssh-agent.
func (m *Machine) agentSocket() (string, error) {
	socket, _ := m.Caller.LookupEnv("SSH_AUTH_SOCK")
	switch {
	case socket == "":
		return "", errors.New("SSH_AUTH_SOCK is not set, so there is no ssh-agent")
	case !filepath.IsAbs(socket):
		return "", fmt.Errorf("SSH_AUTH_SOCK: %q is not absolute", socket)
	}
	way := Follow(socket)
	if way.Kind != view.Socket {
		return "", fmt.Errorf("SSH_AUTH_SOCK: %s is not a socket", hostpath.Quote(socket))
	}
	return way.End, nil
}
