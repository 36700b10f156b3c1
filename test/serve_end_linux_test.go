package test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The end of the server is the end of its commands, and of nothing else.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	const clients = 20
	word := fmt.Sprintf("4444.%d", os.Getpid())
	var running []*exec.Cmd
	var stderr [clients]bytes.Buffer
	for i := range clients {
		cmd, stdout := s.begun(t, &stderr[i], "echo begun; exec sleep "+word)
		running = append(running, cmd)
		defer io.Copy(io.Discard, stdout)
	}
	if out, err := s.sbxhost("serve").CombinedOutput(); err == nil || !strings.Contains(string(out), "another sbxhost serve runs") {
		t.Errorf("a second server: %v, %s", err, out)
	}
	// One that is stopped is not waited for.
	s.server.Process.Signal(syscall.SIGSTOP)
	if err := unix.Waitid(unix.P_PID, s.server.Process.Pid, nil, unix.WSTOPPED, nil); err != nil { // each thread of it
		t.Error(err)
	}
	if out, err := s.sbx("", "--", "echo", "alone").Output(); err != nil || string(out) != "alone\n" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := s.sbxhost("serve", "-status").CombinedOutput(); err == nil || !strings.Contains(string(out), "the server does not answer: sbxhost serve -stop ends it") {
		t.Errorf("the status of a stopped server: %v, %s", err, out)
	}
	s.server.Process.Signal(syscall.SIGCONT)
	s.server.Process.Kill()
	s.server.Wait()
	for i, cmd := range running {
		cmd.Wait()
		if cmd.ProcessState.ExitCode() != 125 || !strings.Contains(stderr[i].String(), "sbx: sbxhost serve has ended") {
			t.Errorf("%v, %q", cmd.ProcessState, stderr[i].String())
		}
	}
	for _, pid := range named("sleep\x00" + word) { // who was killed a moment ago
		if fd, err := unix.PidfdOpen(pid, 0); err == nil {
			unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 10_000)
			unix.Close(fd)
		}
	}
	if left := named("sleep\x00" + word); len(left) > 0 {
		t.Errorf("%d live on", left)
	}
	// Its socket is there still, and nobody answers.
	if out, err := s.sbx("", "--", "echo", "alone").Output(); err != nil || string(out) != "alone\n" {
		t.Errorf("%q, %v", out, err)
	}
	s.start(t)
	if out, err := s.sbx("", "--", "echo", "served").Output(); err != nil || string(out) != "served\n" {
		t.Errorf("%q, %v", out, err)
	}
	// A signal that ends it ends what it runs as a signal does.
	var said bytes.Buffer
	cmd, stdout := s.begun(t, &said, "echo begun; exec sleep "+word)
	s.server.Process.Signal(syscall.SIGTERM)
	io.Copy(io.Discard, stdout)
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 143 || said.String() != "sbxhost: sbxhost serve ends, and the command with it\n" {
		t.Errorf("%v, %q", cmd.ProcessState, said.String())
	}
	if err := s.server.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(s.dir + "/run/sbxhost/serve"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its socket: %v", err)
	}
}

// A command that has not begun runs without the server that it waited in.
func TestServeKilledBeforeATurn(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	holder := s.sbx("export SBX_SERVE=off", "-session", "s", "-c", "echo begun; read end")
	end, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	begun, err := holder.StdoutPipe()
	if err == nil {
		err = holder.Start()
	}
	if err == nil {
		_, err = io.ReadFull(begun, make([]byte, len("begun\n")))
	}
	if err != nil {
		t.Fatal(err)
	}
	var stdout bytes.Buffer
	waiting := s.sbx("", "-session", "s", "--", "echo", "ran")
	waiting.Stdout = &stdout
	said, err := waiting.StderrPipe()
	if err == nil {
		err = waiting.Start()
	}
	if err == nil {
		_, err = io.ReadFull(said, make([]byte, len("sbxhost: waiting for session")))
	}
	if err != nil {
		t.Fatal(err)
	}
	s.server.Process.Kill()
	s.server.Wait()
	end.Close()
	text, _ := io.ReadAll(said)
	holder.Wait()
	if err := waiting.Wait(); err != nil || stdout.String() != "ran\n" {
		t.Errorf("%v, %q, %q", err, &stdout, text)
	}
}

// A server that nobody wants ends by itself, and so does one of whose programs one was replaced.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	s := newServing(t, "-idle", "1s")
	if out, err := s.sbx("", "--", "echo", "x").Output(); err != nil || string(out) != "x\n" {
		t.Errorf("%q, %v", out, err)
	}
	if err := s.server.Wait(); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"sbxhost", "sbxhost-engine-native", "sbxhost-init"} {
		s.start(t)
		// What else lies there is not its concern.
		if err := os.WriteFile(filepath.Join(s.bin, "other-"+name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		s.sbx("", "--", "true").Run()
		if out, err := s.sbxhost("serve", "-status").Output(); err != nil || servedBy(string(out)) != strconv.Itoa(s.server.Process.Pid) {
			t.Errorf("after another file: %v, %s", err, out)
		}
		// Not by this process: one that another test starts then could have the program open to write.
		if out, err := exec.Command("sh", "-c", `cp "$0" "$0.new" && mv "$0.new" "$0"`, filepath.Join(s.bin, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		// Whoever asks it tells it, also who is confined otherwise, or gone before it looks.
		confined := s.sbx("", "--", "echo", "x")
		confined.Path, confined.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n 500; exec "$0" "$@"`, confined.Path}, confined.Args[1:]...)
		if out, err := confined.Output(); err != nil || string(out) != "x\n" {
			t.Errorf("%q, %v", out, err)
		}
		late := time.AfterFunc(time.Minute, func() { s.server.Process.Kill() })
		if err := s.server.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		late.Stop()
	}
}
