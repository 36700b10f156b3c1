package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/shared"
)

// crashEnv has the test binary be an engine that is to be killed: it names the
// daemon, the init's directory and the options, each on a line.
const crashEnv = "SBXHOST_TEST_CRASH"

// other is the engine of a process that a test starts. It does not sweep, as those of newEngine.
func other(how string) (*engine, shared.Spec) {
	part := strings.Split(how, "\n")
	s := daemon.HostSurroundings()
	s.Getenv = func(name string) string { return map[string]string{"DOCKER_HOST": part[0]}[name] }
	e := &engine{surroundings: s, locateInit: func() (sandboxinit.Binary, error) {
		return sandboxinit.Binary{Path: filepath.Join(part[1], "sbxhost-init")}, nil
	}}
	e.sweep.Do(func() {})
	return e, shared.Spec{Options: []byte(part[2])}
}

// crash starts a command, says so, and waits to be killed.
func crash(how string) {
	ctx := context.Background()
	e, spec := other(how)
	sandbox, err := e.Open(ctx, spec)
	if err == nil {
		_, err = sandbox.Start(ctx, shared.Command{Args: []string{"/bin/sh", "-c", "trap '' TERM HUP; setsid sleep 1000 & echo up; sleep 1000"}, Env: []string{"PATH=/bin"}, Dir: "/"}, shared.Stdio{})
	}
	fmt.Println("started", err)
	select {}
}

func TestEngineKilled(t *testing.T) {
	t.Parallel()
	d := daemonFor(t)
	init, err := initDir()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), crashEnv+"=unix://"+d.Socket+"\n"+init+"\n"+string(rawOptions(t, opts{})))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	var mine string
	for _, c := range list(t) {
		if c.Labels[ownerLabel] == strconv.Itoa(cmd.Process.Pid) {
			mine = c.ID
		}
	}
	if line != "started <nil>\n" || mine == "" {
		cmd.Process.Kill()
		cmd.Wait()
		t.Fatalf("container %q: %s", mine, line)
	}
	wait := d.Client.ContainerWait(t.Context(), mine, client.ContainerWaitOptions{Condition: container.WaitConditionRemoved})
	cmd.Process.Kill()
	cmd.Wait()
	select {
	case <-wait.Result:
	case err := <-wait.Error:
		t.Errorf("waiting for the container to be removed: %v", err)
	}
}

// userEnv is crashEnv for an engine that runs one command and ends.
const userEnv = "SBXHOST_TEST_USER"

func asUser(how string) {
	ctx := context.Background()
	e, spec := other(how)
	ws, err := os.MkdirTemp("", "docker-user-")
	if err == nil {
		spec.Table = []shared.Entry{{Source: ws, Path: "/w", Access: shared.ReadWrite, Why: "workspace"}}
		err = oneCommand(ctx, e, spec)
	}
	if err == nil {
		err = os.Remove(filepath.Join(ws, "made"))
	}
	os.Remove(ws)
	fmt.Println("ended", err)
	os.Exit(0)
}

func oneCommand(ctx context.Context, e *engine, spec shared.Spec) error {
	sandbox, err := e.Open(ctx, spec)
	if err != nil {
		return err
	}
	defer sandbox.Close(ctx)
	p, err := sandbox.Start(ctx, shared.Command{Args: []string{"/bin/sh", "-c", "id -u; id -g; grep CapEff /proc/self/status; : > /w/made"},
		Env: []string{"PATH=/bin"}, Dir: "/"}, shared.Stdio{Stdout: os.Stdout, Stderr: os.Stdout})
	if err != nil {
		return err
	}
	result, err := p.Wait(ctx)
	if err == nil && !result.Status.Success() {
		err = errors.New(result.Status.String())
	}
	return err
}

// TestOrdinaryUser runs an engine as somebody who may use the daemon and is not
// root.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if withRootless() {
		return // every test is one
	}
	d := daemonFor(t)
	init, err := os.MkdirTemp("", "init-") // which that user may enter
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(init)
	if err := errors.Join(os.Chmod(init, 0o755), programs.Copy(init, "cmd/sbxhost-init")); err != nil {
		t.Fatal(err)
	}
	if err := d.Admit(4242); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe") // whose own path that user may not enter
	cmd.Env = []string{"PATH=/usr/bin:/bin", userEnv + "=unix://" + d.Socket + "\n" + init + "\n" + string(rawOptions(t, opts{}))}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4242, Gid: 4243}}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if want := "4242\n4243\nCapEff:\t0000000000000000\nended <nil>\n"; err != nil || string(out) != want {
		t.Errorf("got %s, %v", out, err)
	}
}

func list(t testing.TB) []container.Summary {
	t.Helper()
	got, err := daemonFor(t).Client.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", ownerLabel)})
	if err != nil {
		t.Fatal(err)
	}
	return got.Items
}

// TestSweep leaves what an engine leaves that is killed before it has started the container that
// it made. An engine sweeps when it opens its first sandbox.
func TestSweep(t *testing.T) {
	t.Parallel()
	d := daemonFor(t)
	create := func(labels map[string]string) string {
		got, err := d.Client.ContainerCreate(t.Context(), client.ContainerCreateOptions{Image: dockerd.Image,
			Config: &container.Config{Cmd: []string{"/bin/true"}, Labels: labels}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			d.Client.ContainerRemove(context.Background(), got.ID, client.ContainerRemoveOptions{Force: true})
		})
		return got.ID
	}
	orphan, fresh, foreign := create(map[string]string{ownerLabel: "of TestSweep"}), create(map[string]string{ownerLabel: "young"}), create(nil)
	// Of age in a minute, since the daemon counts whole seconds.
	if err := errors.Join(sweep(d.Client, ownerLabel+"=of TestSweep", "-1m"), sweep(d.Client, ownerLabel+"=young", "10m")); err != nil {
		t.Fatal(err)
	}
	there := func(id string) bool {
		_, err := d.Client.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{})
		return err == nil
	}
	if there(orphan) {
		t.Error("what a dead engine had made is still there")
	}
	if !there(fresh) || !there(foreign) {
		t.Error("something was removed that may have an owner")
	}
	said := d.Client.Events(t.Context(), client.EventsListOptions{Filters: make(client.Filters).Add("event", string(events.ActionPrune)).Add("type", string(events.ContainerEventType))})
	e := newEngine(t)
	e.sweep = sync.Once{}
	sandbox, err := e.Open(t.Context(), shared.Spec{Options: rawOptions(t, opts{})})
	if err != nil {
		t.Fatal(err)
	}
	defer sandbox.Close(context.Background())
	select {
	case <-said.Messages:
	case err := <-said.Err:
		t.Error(err)
	}
}
