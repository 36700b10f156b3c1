package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/shared"
)

// A Daemon is one that has answered.
type Daemon struct {
	Client   *client.Client
	Endpoint endpoint
	Facts    Facts
}

// connectTime bounds the daemon's first answer.
const connectTime = 30 * time.Second

// RemovalTime bounds one request to remove a container.
const RemovalTime = 30 * time.Second

// Connect asks a daemon for its facts.
func Connect(ctx context.Context, at endpoint) (*Daemon, error) {
	c, err := client.New(client.WithHost("unix://"+at.Socket), client.WithUserAgent("sbxhost/"+definition.Version))
	if err != nil {
		return nil, &shared.Error{Kind: shared.ErrUnavailable, Message: err.Error()}
	}
	asking, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	facts, err := askDaemon(asking, c)
	if err != nil {
		c.Close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if e, ok := errors.AsType[*shared.Error](err); ok {
			return nil, e
		}
		return nil, connectError(at, err)
	}
	if facts.Rootless {
		facts.owner = socketOwner(asking, at.Socket)
	}
	return &Daemon{Client: c, Endpoint: at, Facts: facts}, nil
}

func askDaemon(ctx context.Context, c *client.Client) (facts Facts, err error) {
	got, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return facts, err
	}
	i := &got.Info
	if i.OSType != "" && i.OSType != "linux" {
		return facts, &shared.Error{Kind: shared.ErrUnusable, Message: fmt.Sprintf("the Docker daemon runs containers of %s, and the init needs Linux", i.OSType)}
	}
	has := func(option string) bool {
		return slices.ContainsFunc(i.SecurityOptions, func(s string) bool { return s == "name="+option || strings.HasPrefix(s, "name="+option+",") })
	}
	facts = Facts{
		Version: i.ServerVersion, Rootless: has("rootless"), Remapped: has("userns"),
		RecursiveRO: !versions.LessThan(c.ClientVersion(), "1.44") && recursiveReadOnly(i.KernelVersion),
		Limits:      map[string]bool{"memory": i.MemoryLimit, "cpus": i.CPUCfsQuota, "pids": i.PidsLimit},
		Cgroup:      i.CgroupVersion, CPUs: i.NCPU,
	}
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return facts, err
	}
	for _, component := range v.Components {
		// Podman's answers in Docker's API hide that it is rootless, and it silently ignores some of
		// what this engine asks for, such as hidden paths.
		if strings.Contains(strings.ToLower(component.Name), "podman") {
			return facts, &shared.Error{Kind: shared.ErrUnusable, Message: "the daemon is Podman, which does not enforce all that this engine asks for",
				Hint: "use Docker, or an engine for Podman such as docs/examples/sbxhost-engine-podman"}
		}
	}
	return facts, nil
}

// recursiveReadOnly reports whether a kernel can make a tree of mounts read-only, since Linux 5.12.
func recursiveReadOnly(kernel string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(kernel, "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major > 5 || major == 5 && minor >= 12
}

func connectError(at endpoint, err error) error {
	e := &shared.Error{Kind: shared.ErrUnavailable,
		Message: fmt.Sprintf("no Docker daemon answers at %s (%s)", at.Socket, at.Origin),
		Hint:    "start it, or name another by DOCKER_HOST"}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Kind = shared.ErrUnusable
		e.Message = fmt.Sprintf("you may not use the Docker daemon at %s (%s)", at.Socket, at.Origin)
		e.Hint = "join the group that owns the socket, which makes you as good as root on this machine, or use a rootless daemon"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind = shared.ErrUnusable
		e.Message += ": there is no such socket"
		e.Hint = "install and start Docker, or name another socket by DOCKER_HOST"
	case errors.Is(err, context.DeadlineExceeded):
		e.Message += fmt.Sprintf(" within %v", connectTime)
	default:
		e.Message += ": " + FirstLine(err.Error())
	}
	return e
}

// socketOwner returns the uid of the process that listens at a unix socket; nil if it has no number
// here.
func socketOwner(ctx context.Context, path string) *uint32 {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil
	}
	defer conn.Close()
	cred, err := PeerCred(conn.(*net.UnixConn))
	if err != nil || cred.Uid == overflowUID {
		return nil
	}
	return &cred.Uid
}

// PeerCred is the process at the other end of conn when it connected, or began to listen, in
// numbers of this process's namespaces.
func PeerCred(conn *net.UnixConn) (cred *unix.Ucred, err error) {
	err = frame.Control(conn, func(fd int) (err error) {
		cred, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	return cred, err
}
