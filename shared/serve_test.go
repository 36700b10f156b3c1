package shared

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// roleEnv makes this test binary an engine, or a host that is to be killed.
const roleEnv = "SBXHOST_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "engine":
		Serve(&testEngine{})
	case "early":
		Serve(early{&testEngine{}})
	case "host":
		if err := doomedHost(); err != nil {
			fmt.Println("host:", err)
		}
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// early writes a line when it need not go on.
type early struct{ *testEngine }

func (early) StartEarly(ctx context.Context) {
	<-ctx.Done()
	fmt.Fprint(os.NewFile(4, "alive"), "enough")
}

// launched is an engine in a process of its own.
type launched struct {
	engine  Engine
	client  *plugin.Client
	channel *Channel
	cmd     *exec.Cmd
	dir     string
}

// launch starts the engine; alive, if not nil, is a file that it has open for
// as long as it lives. Its commands have not: they are given it.
func launch(withChannel bool, alive *os.File) (*launched, error) {
	return launchAs("engine", withChannel, alive)
}

func launchAs(role string, withChannel bool, alive *os.File) (_ *launched, err error) {
	l := &launched{}
	if l.dir, err = os.MkdirTemp("", "engine"); err != nil {
		return nil, err
	}
	l.cmd = exec.Command(os.Args[0])
	l.cmd.Env = []string{roleEnv + "=" + role, plugin.EnvUnixSocketDir + "=" + l.dir}
	if withChannel {
		var engineEnd *os.File
		if l.channel, engineEnd, err = NewChannel(); err != nil {
			return nil, err
		}
		defer engineEnd.Close()
		l.cmd.ExtraFiles = []*os.File{engineEnd}
		l.cmd.Env = append(l.cmd.Env, l.channel.Env(3)...)
	}
	if alive != nil {
		l.cmd.ExtraFiles = append(l.cmd.ExtraFiles, alive)
	}
	config := ClientConfig(l.channel)
	config.Cmd = l.cmd
	config.Logger = hclog.NewNullLogger()
	l.client = plugin.NewClient(config)
	protocol, err := l.client.Client()
	if err != nil {
		return nil, err
	}
	dispensed, err := protocol.Dispense(PluginName)
	if err != nil {
		return nil, err
	}
	l.engine = dispensed.(Engine)
	return l, nil
}

func launchFor(t *testing.T, withChannel bool, alive *os.File) *launched {
	t.Helper()
	l, err := launch(withChannel, alive)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.client.Kill()
		if l.channel != nil {
			l.channel.Close()
		}
		os.RemoveAll(l.dir)
	})
	return l
}

func TestEngineProcess(t *testing.T) {
	for name, withChannel := range map[string]bool{"descriptors": true, "streamed": false} {
		t.Run(name, func(t *testing.T) {
			l := launchFor(t, withChannel, nil)
			for _, c := range suite() {
				t.Run(c.name, func(t *testing.T) { c.run(t, l.engine) })
			}
		})
	}
}

// What a command sees of the engine process that started it.
func TestEngineProcessIsClosed(t *testing.T) {
	// As an engine that is pinned has its executable, and what its host was started with.
	_, inherited := pipe(t)
	l := launchFor(t, true, inherited)
	got, _ := runScript(t, open(t, l.engine), `for f in /dev/fd/*; do [ -e $f ] && echo -n "${f##*/} "; done; env`)
	for _, bad := range []string{ChannelEnv, Handshake.MagicCookieKey, " 3 ", " 4 ", " 5 "} {
		if strings.Contains(got, bad) {
			t.Errorf("%q in %q", bad, got)
		}
	}
}

func TestEngineKilled(t *testing.T) {
	for name, withChannel := range map[string]bool{"descriptors": true, "streamed": false} {
		t.Run(name, func(t *testing.T) {
			l := launchFor(t, withChannel, nil)
			s, err := l.engine.Open(t.Context(), Spec{Unconfined: true})
			if err != nil {
				t.Fatal(err)
			}
			in, inW := pipe(t) // ends the command, which outlives this engine
			r, w := pipe(t)
			p := startCommand(t, s, sh("echo; exec cat"), Stdio{Stdin: in, Stdout: w})
			in.Close()
			r.Read(make([]byte, 1))
			if err := l.cmd.Process.Kill(); err != nil {
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
			if _, err := l.engine.Open(t.Context(), Spec{}); !errors.Is(err, ErrEngineLost) {
				t.Errorf("Open: %v", err)
			}
			if err := s.Close(t.Context()); err != nil {
				t.Errorf("Close: %v", err)
			}
			inW.Close()
		})
	}
}

// doomedHost starts an engine and a command and waits to be killed.
func doomedHost() error {
	alive := os.NewFile(3, "alive")
	l, err := launch(true, alive)
	if err != nil {
		return err
	}
	s, err := l.engine.Open(context.Background(), Spec{Unconfined: true})
	if err != nil {
		return err
	}
	if _, err := s.Start(context.Background(), sh("echo started "+l.dir+"; exec sleep 600"), Stdio{Stdout: os.Stdout, Stderr: alive}); err != nil {
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
	dir, ok := strings.CutPrefix(strings.TrimSpace(line), "started ")
	if err != nil || !ok {
		t.Fatalf("%q, %v", line, err)
	}
	host.Process.Kill()
	host.Wait()
	// At the end of this file neither the engine nor the command is left.
	if _, err := io.ReadAll(alive); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket directory is left: %v", err)
		os.RemoveAll(dir)
	}
}

// What is started early is over with the first sandbox, and the engine's end waits for it.
func TestStartEarly(t *testing.T) {
	for name, over := range map[string]func(l *launched) error{
		"opened": func(l *launched) error {
			_, err := l.engine.Open(t.Context(), Spec{Unconfined: true})
			return err
		},
		"ended": func(l *launched) error { return l.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			alive, aliveW := pipe(t)
			l, err := launchAs("early", true, aliveW)
			if err != nil {
				t.Fatal(err)
			}
			defer l.channel.Close()
			defer l.client.Kill()
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
	for name, end := range map[string]func(l *launched){
		"terminated":     func(l *launched) { l.cmd.Process.Signal(syscall.SIGTERM) },
		"channel closed": func(l *launched) { l.channel.Close() },
		"asked":          func(l *launched) { l.client.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			alive, aliveW := pipe(t)
			l := launchFor(t, true, aliveW)
			s, err := l.engine.Open(t.Context(), Spec{Unconfined: true})
			if err != nil {
				t.Fatal(err)
			}
			p := startCommand(t, s, sh("exec sleep 600"), Stdio{Stderr: aliveW})
			aliveW.Close()
			end(l)
			if _, err := io.ReadAll(alive); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(l.dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the socket directory is left: %v", err)
			}
			// The engine may get to report the command's end before its own.
			if got, err := p.Wait(t.Context()); !errors.Is(err, ErrEngineLost) && got.Status.Signal != syscall.SIGKILL {
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
		{nil, 1, "", `This is the sbxhost engine "test"`},
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
		cmd.Env = []string{roleEnv + "=engine", ChannelEnv + "=" + value, Handshake.MagicCookieKey + "=" + Handshake.MagicCookieValue}
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		cmd.ExtraFiles = []*os.File{null, null}
		out, _ := cmd.CombinedOutput()
		null.Close()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), ChannelEnv) {
			t.Errorf("%q: %v, %s", value, cmd.ProcessState, out)
		}
	}
}

func TestRemoveSocketDir(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	removeSocketDir(dir)
	removeSocketDir("")
	removeSocketDir(dir + "/no/such")
	if _, err := os.Stat(filepath.Join(dir, "precious")); err != nil {
		t.Error("a file that is no socket was removed")
	}
}

// Who finds the engine's socket and is not its host is told nothing.
func TestEngineServesItsHostAlone(t *testing.T) {
	l := launchFor(t, true, nil)
	addr := l.client.ReattachConfig().Addr
	for name, options := range map[string][]grpc.DialOption{
		"no token":    nil,
		"wrong token": {grpc.WithPerRPCCredentials(newCallToken())},
		"its token":   {grpc.WithPerRPCCredentials(l.channel.token)},
	} {
		conn, err := grpc.NewClient("unix:"+addr.String(), append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		engine := NewClient(conn, nil)
		_, infoErr := engine.Info(t.Context())
		_, openErr := engine.Open(t.Context(), Spec{Unconfined: true}) // a stream
		if own := name == "its token"; (infoErr == nil) != own || (openErr == nil) != own {
			t.Errorf("%s: %v, %v", name, infoErr, openErr)
		}
	}
}
