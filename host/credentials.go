package host

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// The credential sets that a definition can name.
const (
	// CredentialGitHub passes GITHUB_TOKEN and GH_TOKEN as they are set, and
	// has git authenticate by it over https.
	CredentialGitHub = "github"
	// CredentialGitHubCLI is CredentialGitHub, with the token that `gh auth
	// token` gives where neither variable is set.
	CredentialGitHubCLI = "github-cli"
	// CredentialSSHAgent shows the socket of SSH_AUTH_SOCK, and no key: what a
	// command can do with it is to sign while it runs.
	CredentialSSHAgent = "ssh-agent"
)

// Credentials lists the names of the credential sets.
func Credentials() []string {
	return []string{CredentialGitHub, CredentialGitHubCLI, CredentialSSHAgent}
}

func checkCredentials(names []string) error {
	for i, name := range names {
		if !slices.Contains(Credentials(), name) {
			return attributeError(fmt.Sprintf("credentials[%d]", i), fmt.Sprintf("there is no credential set %q", name), "there are "+strings.Join(Credentials(), ", "))
		}
	}
	return nil
}

// A credentialVar is a variable that carries a secret, or leads to one.
type credentialVar struct{ name, value, origin string }

// credentials gives the variables of a definition's credential sets, and notes
// on those that are not to be had. With planning, no program is run, and a token
// that one would give is empty.
func (h *Host) credentials(ctx context.Context, names []string, planning bool) (vars []credentialVar, notes []string) {
	for _, name := range names {
		origin := fmt.Sprintf("credentials %q", name)
		switch name {
		case CredentialGitHub, CredentialGitHubCLI:
			found, err := h.gitHub(ctx, origin, name == CredentialGitHubCLI, planning)
			if err != nil {
				notes = append(notes, fmt.Sprintf("credentials: %s: %v", name, err))
			}
			for _, v := range found {
				if !slices.ContainsFunc(vars, func(have credentialVar) bool { return have.name == v.name }) {
					vars = append(vars, v)
				}
			}
		case CredentialSSHAgent:
			if socket, err := h.resolver.agentSocket(); err == nil {
				vars = append(vars, credentialVar{"SSH_AUTH_SOCK", socket, origin})
			}
		}
	}
	return vars, notes
}

// gitHub gives the variables of a token, or says why there is none.
func (h *Host) gitHub(ctx context.Context, origin string, ask, planning bool) ([]credentialVar, error) {
	var vars []credentialVar
	token := ""
	for _, name := range [...]string{"GH_TOKEN", "GITHUB_TOKEN"} { // in the order in which gh looks
		value, _ := h.caller.lookupEnv(name)
		if value == "" {
			continue
		}
		vars = append(vars, credentialVar{name, value, origin})
		if token == "" {
			token = value
		}
	}
	if token == "" && ask {
		if !planning {
			var err error
			if token, err = h.ghToken.get(ctx, h); err != nil {
				return nil, err
			}
		}
		vars = append(vars, credentialVar{"GH_TOKEN", token, origin})
	} else if token == "" {
		return nil, errors.New("neither GH_TOKEN nor GITHUB_TOKEN is set, so that commands are not authenticated")
	}
	server, _ := h.caller.lookupEnv("GITHUB_SERVER_URL")
	key, err := gitHubKey(server)
	if err != nil {
		return nil, err
	}
	if server != "" {
		vars = append(vars, credentialVar{"GITHUB_SERVER_URL", server, origin})
	}
	// By a header and not in a URL, which git gives to its helpers as an argument
	// and quotes in its messages.
	header := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("x-access-token:"+token))
	return append(vars, credentialVar{"GIT_CONFIG_COUNT", "1", origin}, credentialVar{"GIT_CONFIG_KEY_0", key, origin},
		credentialVar{"GIT_CONFIG_VALUE_0", header, origin}), nil
}

// gitHubKey is the key of git's configuration for requests to a GitHub server,
// by its URL, as CI systems give it; empty is github.com.
func gitHubKey(server string) (string, error) {
	if server == "" {
		server = "https://github.com"
	}
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return "", errors.New("GITHUB_SERVER_URL is not of the form https://HOST, and the token goes nowhere else")
	}
	return "http.https://" + u.Host + "/.extraHeader", nil
}

// ghToken is what `gh auth token` gave, which is kept for a while: it takes
// longer than a command.
type ghToken struct {
	mu    sync.Mutex
	token string
	until time.Time
}

const (
	ghTokenFor     = 5 * time.Minute
	ghTokenTimeout = 5 * time.Second
)

func (g *ghToken) get(ctx context.Context, h *Host) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.token != "" && time.Now().Before(g.until) {
		return g.token, nil
	}
	gh := h.ownProgram("gh")
	if gh == "" {
		return "", errors.New("neither GH_TOKEN nor GITHUB_TOKEN is set, and gh is not installed")
	}
	ctx, cancel := context.WithTimeout(ctx, ghTokenTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, gh, "auth", "token")
	cmd.Dir = "/" // never in the workspace
	cmd.Env = pickEnv(h.caller.environ, []string{"HOME", "PATH", "XDG_CONFIG_HOME", "GH_CONFIG_DIR", "GH_HOST", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"})
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	token := string(bytes.TrimSpace(out))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("gh auth token: %w", ctx.Err())
	case err != nil:
		return "", errors.New("gh auth token gave none: log in with gh auth login") // not its output, which may be the token
	case token == "" || strings.ContainsAny(token, " \t\r\n\x00"):
		return "", errors.New("gh auth token printed something that is no token")
	}
	g.token, g.until = token, time.Now().Add(ghTokenFor)
	return token, nil
}

// ownProgram finds a program that runs outside of sandboxes, for the host: on
// the caller's PATH, but never where a command could have put it.
func (h *Host) ownProgram(name string) string {
	path, _ := h.caller.lookupEnv("PATH")
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		resolved, err := checkExecutable(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if _, writable := h.inWorkspace(dir, resolved); !writable {
			return resolved
		}
	}
	return ""
}

// agentSocket is the resolved path of the caller's ssh-agent.
func (r *resolver) agentSocket() (string, error) {
	socket, _ := r.caller.lookupEnv("SSH_AUTH_SOCK")
	switch {
	case socket == "":
		return "", errors.New("SSH_AUTH_SOCK is not set: no ssh-agent is at hand")
	case !filepath.IsAbs(socket):
		return "", fmt.Errorf("SSH_AUTH_SOCK: %q is not absolute", socket)
	}
	resolved, err := filepath.EvalSymlinks(socket)
	if err != nil {
		return "", fmt.Errorf("SSH_AUTH_SOCK: %w", err)
	}
	info, err := os.Lstat(resolved)
	if err != nil {
		return "", fmt.Errorf("SSH_AUTH_SOCK: %w", err)
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return "", fmt.Errorf("SSH_AUTH_SOCK: %s is not a socket", resolved)
	}
	return resolved, nil
}

// mountAgent shows the agent's socket, and nothing beside it.
func (r *resolver) mountAgent(m *mounts, d Definition) error {
	if !slices.Contains(d.Credentials, CredentialSSHAgent) {
		return nil
	}
	attribute := fmt.Sprintf("credentials[%d]", slices.Index(d.Credentials, CredentialSSHAgent))
	socket, err := r.agentSocket()
	if err != nil {
		return attributeError(attribute, err.Error(), "start ssh-agent, or leave ssh-agent out")
	}
	if r.owner != nil {
		return &shared.Error{Kind: shared.ErrUnsupported, Attribute: attribute,
			Message: fmt.Sprintf("commands run as the workspace's owner, %s, who cannot use the agent of root", r.owner.name),
			Hint:    "run sbxhost as that user"}
	}
	return m.add(shared.Mount{Source: socket, Destination: socket, Origin: attribute})
}
