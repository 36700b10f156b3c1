//go:build linux

package cmdengine

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/shared"
)

// engineRole is an engine process: it starts a command on descriptor 3 and lives on.
func engineRole(mode string) int {
	sb, err := New(config(mode)).Open(context.Background(), specFor(mode))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	// From a goroutine whose thread ends, which must not matter.
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		_, err := sb.Start(context.Background(), shared.Command{Args: []string{"sleep", "1000"}, Env: stdEnv, Dir: "/"},
			shared.Stdio{Stdout: os.NewFile(3, "alive")})
		started <- err
	}()
	fmt.Println("started", <-started)
	io.Copy(io.Discard, os.Stdin)
	return 0
}

func role(t *testing.T, role string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

func TestEngineKilled(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		o := newOutput(t)
		cmd := role(t, "engine:"+mode)
		cmd.ExtraFiles = []*os.File{o.w}
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		o.w.Close()
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil || line != "started <nil>\n" {
			t.Fatalf("%q, %v", line, err)
		}
		// It lives, though the goroutine that asked for it is gone.
		o.r.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		if _, err := o.b.ReadByte(); !os.IsTimeout(err) {
			t.Fatalf("the command is gone before the engine: %v", err)
		}
		cmd.Process.Kill()
		cmd.Wait()
		o.rest()
	})
}

// leakRole counts what is left after many commands, in a process of its own.
func leakRole(mode string) int {
	ctx := context.Background()
	e := New(config(mode))
	fds := func() int {
		list, _ := os.ReadDir("/proc/self/fd")
		return len(list)
	}
	once := func(args ...string) {
		sb, err := e.Open(ctx, specFor(mode))
		if err != nil {
			panic(err)
		}
		p, err := sb.Start(ctx, shared.Command{Args: args, Env: stdEnv, Dir: "/", Timeout: time.Minute, Grace: 1}, shared.Stdio{})
		if err == nil {
			p.Wait(ctx)
		}
		sb.Close(ctx)
	}
	once("true")
	runtime.GC()
	beforeFDs, beforeGoroutines := fds(), runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for i := range 10 {
				once([]string{"true", "false", "no-such-command", "/etc/passwd"}[i%4])
			}
		})
	}
	wg.Wait()
	deadline := time.Now().Add(patience)
	for (fds() > beforeFDs || runtime.NumGoroutine() > beforeGoroutines) && time.Now().Before(deadline) {
		runtime.GC()
	}
	if f, g := fds(), runtime.NumGoroutine(); f > beforeFDs || g > beforeGoroutines {
		fmt.Printf("descriptors %d -> %d, goroutines %d -> %d\n", beforeFDs, f, beforeGoroutines, g)
		return 1
	}
	// Engines share the thread that forks.
	e = New(config(mode))
	once("true")
	for runtime.NumGoroutine() > beforeGoroutines && time.Now().Before(deadline) {
		runtime.GC()
	}
	if g := runtime.NumGoroutine(); g > beforeGoroutines {
		fmt.Printf("goroutines %d -> %d with another engine\n", beforeGoroutines, g)
		return 1
	}
	return 0
}

func TestLeaks(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		if out, err := role(t, "leaks:"+mode).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
}

func TestTerminal(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		ptmx, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer ptmx.Close()
		sb := open(t, config(mode), specFor(mode))
		cmd := sh(`trap 'echo interrupted; exit 12' INT; test -t 0 && test -t 1 && echo ready >/dev/tty; while :; do sleep 0.02; done`)
		cmd.TTY = true
		p, err := sb.Start(t.Context(), cmd, shared.Stdio{Stdin: tty, Stdout: tty, Stderr: tty})
		tty.Close()
		if err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(ptmx)
		if line, err := r.ReadString('\n'); err != nil || line != "ready\r\n" {
			t.Fatalf("%q, %v", line, err)
		}
		io.WriteString(ptmx, "\x03")
		if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "interrupted") {
			t.Errorf("%q, %v", line, err)
		}
		if result, err := p.Wait(t.Context()); err != nil || result.Status.Code != 12 {
			t.Errorf("%+v, %v", result, err)
		}

		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		for _, f := range []*os.File{nil, null} {
			_, err = sb.Start(t.Context(), cmd, shared.Stdio{Stdin: f})
			wantError(t, err, shared.ErrInvalidSpec, "stdin: is not a terminal")
		}
		c := config(mode)
		c.Info.Features = slices.DeleteFunc(slices.Clone(c.Info.Features), func(f shared.Feature) bool { return f == shared.FeatureTTY })
		_, err = open(t, c, specFor(mode)).Start(t.Context(), cmd, shared.Stdio{})
		wantError(t, err, shared.ErrUnsupported, "tty: ")
	})
}

func TestStdioRefusesADirectory(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		dir, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		_, err = open(t, config(mode), specFor(mode)).Start(t.Context(), sh("true"), shared.Stdio{Stdin: dir})
		wantError(t, err, shared.ErrInvalidSpec, "stdin: ")
	})
}

func TestUser(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		self := processUser()
		spec := specFor(mode)
		if self.UID != 0 {
			spec.User = &shared.User{UID: self.UID + 1, GID: self.GID}
			_, err := New(config(mode)).Open(t.Context(), spec)
			wantError(t, err, shared.ErrDenied, "run_as: ")
			spec.User = &shared.User{UID: self.UID, GID: self.GID, Groups: self.Groups}
			got, _ := run(t, open(t, config(mode), spec), sh("id -u"))
			if got != fmt.Sprintln(self.UID) {
				t.Errorf("uid %q", got)
			}
			return
		}
		spec.User = &shared.User{UID: 54321, GID: 54322, Groups: []uint32{54323}}
		sb := open(t, config(mode), spec)
		// By path: a pipe that root has made would be denied to another.
		got, _ := run(t, sb, sh("id -u >/dev/stdout; id -g >/dev/stderr; grep ^NoNewPrivs /proc/self/status >/dev/null; echo $(id -G | wc -w)"))
		want := "54321\n54322\n2\n"
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}
