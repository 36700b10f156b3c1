package vessel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/proc"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// A Vessel is a container that runs.
type Vessel struct {
	docker  *client.Client
	id      string
	control *os.File // the socket of its init
	// Warnings are what the daemon ignored in the container's configuration.
	Warnings []string

	// gone is closed when nothing runs in it any more, removed when the daemon has also removed it,
	// or cannot say.
	gone, removed chan struct{}
	// exit is the daemon's report of its end; valid after removed.
	exit container.WaitResponse

	ending sync.Once
}

// Launch makes and starts a container and waits for its init. If ctx ends, or anything fails,
// nothing of it is left, or soon will be. The container counts in vessels until the daemon has
// removed it.
func Launch(ctx context.Context, docker *client.Client, p *plan.Plan, at *ocispec.Platform, m *meeting, vessels *sync.WaitGroup) (_ *Vessel, err error) {
	defer m.End()
	v, err := create(ctx, docker, client.ContainerCreateOptions{Config: &p.Config, HostConfig: &p.Host, Platform: at}, vessels)
	if err != nil {
		return nil, startFailure(ctx, err)
	}
	defer func() {
		if err != nil {
			v.remove()
		}
	}()
	if _, err := docker.ContainerStart(ctx, v.id, client.ContainerStartOptions{}); err != nil {
		return nil, startFailure(ctx, err)
	}
	meet, met := context.WithCancelCause(ctx)
	defer met(nil)
	go func() {
		select {
		case <-v.removed:
			met(errGone)
		case <-meet.Done():
		}
	}()
	pid := 0 // of nobody, if the container has ended
	if found, err := docker.ContainerInspect(meet, v.id, client.ContainerInspectOptions{}); err == nil {
		pid = found.Container.State.Pid
	}
	conn, err := m.accept(meet, pid)
	if err != nil {
		if errors.Is(err, errGone) {
			return nil, v.startError()
		}
		return nil, startFailure(ctx, err)
	}
	defer conn.Close()
	if v.control, err = conn.File(); err != nil {
		return nil, startFailure(ctx, err)
	}
	if pidfd, err := unix.PidfdOpen(pid, 0); err == nil {
		go func() {
			defer unix.Close(pidfd)
			for !proc.Ended(pidfd, time.Hour) {
			}
			v.end() // every process of its namespace is gone too
		}()
	}
	return v, nil
}

// create makes a container, and begins to wait for its end. An interrupted request could have made
// one that nobody knows: so the request goes on when ctx ends, and its container is then removed.
func create(ctx context.Context, docker *client.Client, options client.ContainerCreateOptions, vessels *sync.WaitGroup) (*Vessel, error) {
	lasting := context.WithoutCancel(ctx)
	var v *Vessel
	var err error
	answered := make(chan struct{})
	vessels.Go(func() {
		var created client.ContainerCreateResult
		if created, err = docker.ContainerCreate(lasting, options); err != nil {
			close(answered)
			return
		}
		v = &Vessel{docker: docker, id: created.ID, Warnings: created.Warnings, gone: make(chan struct{}), removed: make(chan struct{})}
		wait := docker.ContainerWait(lasting, v.id, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
		close(answered)
		v.follow(wait)
	})
	select {
	case <-answered:
		return v, err
	case <-ctx.Done():
		go func() {
			if <-answered; v != nil {
				v.remove()
			}
		}()
		return nil, ctx.Err()
	}
}

var errGone = errors.New("the container is gone")

func (v *Vessel) end() { v.ending.Do(func() { close(v.gone) }) }

// follow waits until the daemon reports that the container is gone.
func (v *Vessel) follow(wait client.ContainerWaitResult) {
	select {
	case v.exit = <-wait.Result:
	case err := <-wait.Error:
		// The daemon may be gone. A command in the container then counts as ended, and its init
		// loses the engine.
		v.exit.Error = &container.WaitExitError{Message: err.Error()}
	}
	v.end()
	close(v.removed)
}

// startError explains a container that ended before its init answered.
func (v *Vessel) startError() error {
	e := &shared.Error{Kind: shared.ErrUnavailable, Hint: "use a daemon that runs on this machine itself, in this pid namespace"}
	switch {
	case v.exit.Error != nil:
		e.Message = "the container ended before its init answered: " + v.exit.Error.Message
	case v.exit.StatusCode == sandboxinit.Unreachable:
		e.Message = "the container's init could not reach the engine: the daemon does not share this machine's files, as in a virtual machine"
	default:
		e.Message = fmt.Sprintf("the container ended with status %d before its init answered", v.exit.StatusCode)
	}
	return e
}

// remove kills the container's processes and makes the daemon remove it. It does not wait.
func (v *Vessel) remove() {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), daemon.RemovalTime)
		defer cancel()
		// Also a container that never started, which the daemon does not remove by itself.
		v.docker.ContainerRemove(ctx, v.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	}()
}

// Kill ends everything inside at once, through the kernel, not the init. If the daemon hangs, whose
// runtime must do that, the container counts as gone after a while.
func (v *Vessel) Kill() error {
	time.AfterFunc(daemon.RemovalTime, v.end)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), daemon.RemovalTime)
		defer cancel()
		v.docker.ContainerKill(ctx, v.id, client.ContainerKillOptions{Signal: "KILL"})
	}()
	return nil
}

// Pid implements [cmdengine.Process].
func (*Vessel) Pid() int { return 0 }

// Control implements [cmdengine.Connected].
func (v *Vessel) Control() *os.File { return v.control }

// Wait waits until nothing runs inside.
func (v *Vessel) Wait() (syscall.WaitStatus, error) {
	<-v.gone
	return 0, errEnded
}

var errEnded = errors.New("the container was killed or removed, or ran out of memory as a whole,")

// startFailure says why the daemon did not make or start a container.
func startFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &shared.Error{Kind: shared.ErrUnavailable, Message: "the Docker daemon did not start a container: " + daemon.FirstLine(err.Error())}
	text := err.Error()
	switch {
	case client.IsErrConnectionFailed(err):
		e.Message = daemon.FirstLine(text)
		e.Hint = "make sure that the daemon runs"
	case strings.Contains(text, "unable to find user"):
		e.Kind, e.Attribute = shared.ErrInvalidSpec, "config.user"
	case strings.Contains(text, plan.InitInside) && strings.Contains(text, "permission denied"):
		e.Hint = "the init, sbxhost-init or sbxhost itself, must be executable by everybody and lie on a file system that allows it"
	case cerrdefs.IsNotFound(err):
		e.Attribute, e.Hint = "config.image", "the image has gone since the sandbox was opened"
	}
	return e
}
