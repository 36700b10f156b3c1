package shared_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	. "github.com/sbxhost/sbxhost/shared"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/sbxhost/sbxhost/internal/dial"
	"github.com/sbxhost/sbxhost/internal/wire"
	"google.golang.org/protobuf/types/known/emptypb"
)

// roleEnv makes this test binary an engine, or a host that is to be killed.
const roleEnv = "SBXHOST_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "engine":
		Serve(&testEngine{})
	case "early":
		Serve(early{&testEngine{}})
	case "chatty":
		Serve(chatty{&testEngine{}})
	case "host":
		if err := doomedHost(); err != nil {
			fmt.Println("host:", err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// chatty says something in each way.
type chatty struct{ *testEngine }

func (c chatty) Probe(ctx context.Context) (Probe, error) {
	log.Print("[WARN] careful")
	log.Print("by the way")
	fmt.Fprintln(os.Stderr, "to stderr")
	fmt.Println("to stdout")
	return c.testEngine.Probe(ctx)
}

// What an engine's author logs reaches the host's log, at its level.
func TestAuthorsLog(t *testing.T) {
	t.Parallel()
	for level, want := range map[string]string{
		"":      "[DEBUG] to stderr|[DEBUG] to stdout|[WARN] careful",
		"debug": "[DEBUG] to stderr|[DEBUG] to stdout|[INFO] by the way|[WARN] careful",
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{roleEnv + "=chatty", "SBXHOST_LOG=" + level}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		l, err := dial.Launch(t.Context(), cmd, dial.LaunchOptions{Logger: hclog.New(&hclog.LoggerOptions{Output: w, Level: hclog.Debug, DisableTime: true})})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Kill()
		l.Log() // which waits for the end of it
		w.Close()
		all, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(string(all)) {
			for _, said := range []string{"careful", "by the way", "to stderr", "to stdout"} {
				if strings.Contains(line, said) {
					word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
					got = append(got, word+" "+said)
				}
			}
		}
		slices.Sort(got)
		if strings.Join(got, "|") != want {
			t.Errorf("at level %q: %q\n%s", level, got, all)
		}
	}
}

// early writes a line when it need not go on.
type early struct{ *testEngine }

func (early) StartEarly(ctx context.Context) {
	<-ctx.Done()
	fmt.Fprint(os.NewFile(3, "alive"), "enough")
}

// launch starts an engine; alive, if not nil, is a file that it has open for
// as long as it lives. Its commands have not: they are given it.
func launch(role string, alive *os.File) (*dial.Process, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = []string{roleEnv + "=" + role}
	if alive != nil {
		cmd.ExtraFiles = []*os.File{alive}
	}
	return dial.Launch(context.Background(), cmd, dial.LaunchOptions{KeepSocket: true})
}

func launchFor(t *testing.T, alive *os.File) *dial.Process {
	t.Helper()
	l, err := launch("engine", alive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	return l
}

func socketDir(l *dial.Process) string { return filepath.Dir(l.Address.String()) }

func TestEngineProcess(t *testing.T) {
	l := launchFor(t, nil)
	for _, c := range suite() {
		t.Run(c.name, func(t *testing.T) { c.run(t, l) })
	}
}

// What a command sees of the engine process that started it.
func TestEngineProcessIsClosed(t *testing.T) {
	// As an engine that is pinned has its executable, and what its host was started with.
	_, inherited := pipe(t)
	l := launchFor(t, inherited)
	got, _ := runScript(t, open(t, l), `for f in /dev/fd/*; do [ -e $f ] && echo -n "${f##*/} "; done; env`)
	for _, bad := range []string{wire.ChannelEnv, wire.Handshake.MagicCookieKey, " 3 ", " 4 ", " 5 "} {
		if strings.Contains(got, bad) {
			t.Errorf("%q in %q", bad, got)
		}
	}
}

// What a killed engine cannot remove itself, its socket, is removed with it.
func TestKillLeavesNothing(t *testing.T) {
	l := launchFor(t, nil)
	if _, err := os.Stat(socketDir(l)); err != nil {
		t.Fatal(err)
	}
	l.Signal(syscall.SIGKILL)
	l.Kill()
	if _, err := os.Stat(filepath.Dir(socketDir(l))); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its directory is left: %v", err)
	}
}

func TestEngineKilled(t *testing.T) {
	l := launchFor(t, nil)
	s, err := l.Open(t.Context(), Spec{Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	in, inW := pipe(t) // ends the command, which outlives this engine
	r, w := pipe(t)
	p := startCommand(t, s, sh("echo; exec cat"), Stdio{Stdin: in, Stdout: w})
	in.Close()
	r.Read(make([]byte, 1))
	if err := l.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := p.Wait(t.Context()); !errors.Is(err, ErrEngineLost) {
			t.Errorf("Wait: %v", err)
		}
	}
	for range p.Events() {
	}
	if _, err := s.Start(t.Context(), sh(":"), Stdio{Stdin: in}); !errors.Is(err, ErrEngineLost) && !errors.Is(err, ErrInvalidSpec) {
		t.Errorf("Start: %v", err)
	}
	if _, err := s.Start(t.Context(), sh(":"), Stdio{Stdout: w}); !errors.Is(err, ErrEngineLost) {
		t.Errorf("Start: %v", err)
	}
	if _, err := l.Open(t.Context(), Spec{}); !errors.Is(err, ErrEngineLost) {
		t.Errorf("Open: %v", err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	inW.Close()
}

// doomedHost starts an engine and a command and waits to be killed.
func doomedHost() error {
	alive := os.NewFile(3, "alive")
	l, err := launch("engine", alive)
	if err != nil {
		return err
	}
	os.RemoveAll(filepath.Dir(socketDir(l))) // as without KeepSocket
	s, err := l.Open(context.Background(), Spec{Unconfined: true})
	if err != nil {
		return err
	}
	if _, err := s.Start(context.Background(), sh("echo started; exec sleep 600"), Stdio{Stdout: os.Stdout, Stderr: alive}); err != nil {
		return err
	}
	select {}
}

func TestHostKilled(t *testing.T) {
	alive, aliveW := pipe(t)
	host := exec.Command(os.Args[0])
	host.Env = append(os.Environ(), roleEnv+"=host")
	host.ExtraFiles = []*os.File{aliveW}
	out, err := host.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	aliveW.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	host.Process.Kill()
	host.Wait()
	// At the end of this file neither the engine nor the command is left.
	if _, err := io.ReadAll(alive); err != nil {
		t.Error(err)
	}
}

// What is started early is over with the first sandbox, and the engine's end waits for it.
func TestStartEarly(t *testing.T) {
	for name, over := range map[string]func(l *dial.Process) error{
		"opened": func(l *dial.Process) error {
			_, err := l.Open(t.Context(), Spec{Unconfined: true})
			return err
		},
		"ended": func(l *dial.Process) error { return l.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			alive, aliveW := pipe(t)
			l, err := launch("early", aliveW)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Kill()
			aliveW.Close()
			if err := over(l); err != nil {
				t.Fatal(err)
			}
			said := make([]byte, len("enough"))
			if _, err := io.ReadFull(alive, said); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestEngineEnds(t *testing.T) {
	for name, end := range map[string]func(l *dial.Process){
		"terminated":     func(l *dial.Process) { l.Signal(syscall.SIGTERM) },
		"channel closed": func(l *dial.Process) { l.Disconnect() },
		"asked": func(l *dial.Process) {
			l.Conn.Invoke(t.Context(), "/plugin.GRPCController/Shutdown", &emptypb.Empty{}, &emptypb.Empty{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			alive, aliveW := pipe(t)
			l := launchFor(t, aliveW)
			s, err := l.Open(t.Context(), Spec{Unconfined: true})
			if err != nil {
				t.Fatal(err)
			}
			p := startCommand(t, s, sh("exec sleep 600"), Stdio{Stderr: aliveW})
			aliveW.Close()
			end(l)
			if _, err := io.ReadAll(alive); err != nil {
				t.Error(err)
			}
			// The engine may get to report the command's end before its own.
			if got, err := p.Wait(t.Context()); !errors.Is(err, ErrEngineLost) && !errors.Is(err, ErrClosed) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestStartedByHand(t *testing.T) {
	for _, c := range []struct {
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{nil, 1, "", `This is the sandbox engine "test"`},
		{[]string{"-version"}, 0, "test 1.2.3\n", ""},
		{[]string{"--version"}, 0, "test 1.2.3\n", ""},
	} {
		cmd := exec.Command(os.Args[0], c.args...)
		cmd.Env = []string{roleEnv + "=engine"}
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.Run()
		if cmd.ProcessState.ExitCode() != c.code || stdout.String() != c.stdout || !strings.Contains(stderr.String(), c.stderr) {
			t.Errorf("%q: status %d, %q, %q", c.args, cmd.ProcessState.ExitCode(), stdout.String(), stderr.String())
		}
	}
}

func TestBadChannel(t *testing.T) {
	for _, value := range []string{"", "x", "0", "2", "999", "-3", "4"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{roleEnv + "=engine", wire.ChannelEnv + "=" + value, wire.Handshake.MagicCookieKey + "=" + wire.Handshake.MagicCookieValue}
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = []*os.File{null, null}
		out, _ := cmd.CombinedOutput()
		null.Close()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), wire.ChannelEnv) {
			t.Errorf("%q: %v, %s", value, cmd.ProcessState, out)
		}
	}
}
