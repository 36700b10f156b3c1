// Package daemon finds the daemon and asks it for the facts for plans of containers.
package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// endpoint is the address of the daemon.
type endpoint struct {
	Socket string // absolute path of its unix socket
	Origin string // the source of this address, for people
}

const defaultSocket = "/var/run/docker.sock"

// Surroundings are the inputs for the daemon's address.
type Surroundings struct {
	Getenv func(string) string
	read   func(path string) ([]byte, error)
	exists func(path string) bool
}

// configDir is the directory of Docker's own configuration, empty if unknown.
func (s *Surroundings) configDir() string {
	if dir := s.Getenv("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	if home := s.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".docker")
	}
	return ""
}

// Find uses the same sources in the same order as Docker's own command line: DOCKER_HOST,
// DOCKER_CONTEXT, the current context, the default socket; and, if that does not exist, a rootless
// daemon's.
func Find(s Surroundings) (endpoint, error) {
	if host := s.Getenv("DOCKER_HOST"); host != "" {
		return unixEndpoint(host, "DOCKER_HOST")
	}
	dir := s.configDir()
	context, origin := s.Getenv("DOCKER_CONTEXT"), "DOCKER_CONTEXT"
	if context == "" && dir != "" {
		// Ignore one that cannot be read, like Docker's own command.
		if raw, err := s.read(filepath.Join(dir, "config.json")); err == nil {
			context, origin = decoded[struct{ CurrentContext string }](raw).CurrentContext, "the current context in "+filepath.Join(dir, "config.json")
		}
	}
	if context != "" && context != "default" {
		sum := sha256.Sum256([]byte(context))
		meta := filepath.Join(dir, "contexts", "meta", hex.EncodeToString(sum[:]), "meta.json")
		raw, err := s.read(meta)
		if err != nil {
			return unusable("choose one that `docker context ls` shows", "the Docker context %q (%s) does not exist: %v", context, origin, err)
		}
		host := decoded[contextMeta](raw).Endpoints["docker"].Host
		if host == "" {
			return unusable("set DOCKER_HOST", "the Docker context %q has no endpoint", context)
		}
		return unixEndpoint(host, fmt.Sprintf("the Docker context %q", context))
	}
	if runtime := s.Getenv("XDG_RUNTIME_DIR"); !s.exists(defaultSocket) && filepath.IsAbs(runtime) {
		if rootless := filepath.Join(runtime, "docker.sock"); s.exists(rootless) {
			return endpoint{rootless, "the rootless daemon's socket"}, nil
		}
	}
	return endpoint{defaultSocket, "the default socket"}, nil
}

// unusable says why no daemon can be used.
func unusable(hint, format string, args ...any) (endpoint, error) {
	return endpoint{}, &shared.Error{Kind: shared.ErrUnavailable, Message: fmt.Sprintf(format, args...), Hint: hint}
}

func unixEndpoint(host, origin string) (endpoint, error) {
	socket, ok := strings.CutPrefix(host, "unix://")
	if !ok {
		scheme, _, _ := strings.Cut(host, ":")
		// Do not show the whole address: it may have a password.
		return unusable("point DOCKER_HOST at the unix socket of a local daemon, such as unix://"+defaultSocket,
			"%s names a daemon with a %q address, which may be on another machine; this engine binds the workspace and a socket into containers", origin, scheme)
	}
	if !filepath.IsAbs(socket) || strings.IndexByte(socket, 0) >= 0 {
		return unusable("", "%s: %q is not an absolute path", origin, socket)
	}
	return endpoint{filepath.Clean(socket), origin}, nil
}

// contextMeta is a context's meta.json.
type contextMeta struct {
	Endpoints map[string]struct{ Host string }
}

// decoded reads JSON; the zero value, or a part, if it is invalid.
func decoded[T any](raw []byte) (v T) {
	_ = json.Unmarshal(raw, &v)
	return v
}

// FirstLine is the first line of a daemon's message.
func FirstLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// HostSurroundings are those of this process.
func HostSurroundings() Surroundings {
	return Surroundings{
		Getenv: os.Getenv, read: os.ReadFile,
		exists: func(path string) bool { _, err := os.Lstat(path); return err == nil },
	}
}
