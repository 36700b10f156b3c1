package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/moby/moby/client/pkg/versions"

	"github.com/sbxhost/sbxhost/shared"
)

// A daemon is one that has answered.
type daemon struct {
	client   *client.Client
	endpoint endpoint
	facts    daemonFacts
}

// connectTime bounds how long a daemon may take to say who it is. Podman runs a
// dozen programs for that, which takes seconds on a machine that is busy.
const connectTime = 30 * time.Second

// daemon gives the daemon that the surroundings name. Only one that has
// answered is kept: what failed may have been put right since.
func (e *engine) daemon(ctx context.Context) (*daemon, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.connected != nil {
		return e.connected, nil
	}
	at, err := findEndpoint(e.surroundings)
	if err != nil {
		return nil, err
	}
	d, err := connect(ctx, at)
	if err != nil {
		return nil, err
	}
	e.connected = d
	return d, nil
}

func connect(ctx context.Context, at endpoint) (*daemon, error) {
	c, err := client.New(client.WithHost("unix://"+at.socket), client.WithUserAgent("sbxhost/"+version))
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
	if facts.rootless {
		facts.owner = socketOwner(asking, at.socket)
	}
	return &daemon{client: c, endpoint: at, facts: facts}, nil
}

func askDaemon(ctx context.Context, c *client.Client) (facts daemonFacts, err error) {
	got, err := c.Info(ctx, client.InfoOptions{})
	if err != nil {
		return facts, err
	}
	i := &got.Info
	if i.OSType != "" && i.OSType != "linux" {
		return facts, &shared.Error{Kind: shared.ErrUnusable, Message: fmt.Sprintf("the Docker daemon runs containers of %s, and the init needs Linux", i.OSType)}
	}
	own, err := askPodman(ctx, c)
	if err != nil {
		return facts, err
	}
	has := func(option string) bool {
		return slices.ContainsFunc(i.SecurityOptions, func(s string) bool { return s == "name="+option || strings.HasPrefix(s, "name="+option+",") })
	}
	facts = daemonFacts{
		version: i.ServerVersion, podman: own != nil, rootless: has("rootless"), remapped: has("userns"),
		recursiveRO:  !versions.LessThan(c.ClientVersion(), "1.44") && recursiveReadOnly(i.KernelVersion),
		limitsMemory: i.MemoryLimit, limitsCPUs: i.CPUCfsQuota, limitsPIDs: i.PidsLimit,
		cgroup: i.CgroupVersion, cpus: i.NCPU,
	}
	if own != nil {
		facts.rootless = own.rootless
		facts.limitsMemory = facts.limitsMemory && own.limitsMemory
		facts.limitsCPUs = facts.limitsCPUs && own.limitsCPUs
		facts.limitsPIDs = facts.limitsPIDs && own.limitsPIDs
	}
	return facts, nil
}

// askPodman gives what only Podman says of itself, nil where the daemon is another.
func askPodman(ctx context.Context, c *client.Client) (*podmanFacts, error) {
	v, err := c.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return nil, err
	}
	components := map[string]string{}
	for _, c := range v.Components {
		components[c.Name] = c.Version
	}
	if podman, err := podmanVersion(components); podman == "" || err != nil {
		return nil, err
	}
	return askPodmanInfo(ctx, c)
}

// recursiveReadOnly reports whether a kernel can make a tree of mounts
// read-only, which Linux 5.12 brought.
func recursiveReadOnly(kernel string) bool {
	var major, minor int
	if n, _ := fmt.Sscanf(kernel, "%d.%d", &major, &minor); n != 2 {
		return false
	}
	return major > 5 || major == 5 && minor >= 12
}

func connectError(at endpoint, err error) error {
	e := &shared.Error{Kind: shared.ErrUnavailable,
		Message: fmt.Sprintf("no Docker daemon answers at %s (%s)", at.socket, at.origin),
		Hint:    "start it, or name another by DOCKER_HOST"}
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.Kind = shared.ErrUnusable
		e.Message = fmt.Sprintf("you may not use the Docker daemon at %s (%s)", at.socket, at.origin)
		e.Hint = "join the group that owns the socket, which makes you as good as root on this machine, or use a rootless daemon"
	case errors.Is(err, fs.ErrNotExist):
		e.Kind = shared.ErrUnusable
		e.Message += ": there is no such socket"
		e.Hint = "install and start Docker, or name another socket by DOCKER_HOST"
	case errors.Is(err, context.DeadlineExceeded):
		e.Message += fmt.Sprintf(" within %v", connectTime)
	default:
		e.Message += ": " + firstLine(err.Error())
	}
	return e
}
