package test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// One direction ends before the other, and what a command sent in its last moment goes out.
func (m *netMachine) halfClosed(t *testing.T) {
	const client = `python3 -c '
import socket, sys
s = socket.create_connection(("allowed.example", 5432))
s.sendall(b"x" * 1000000)
s.shutdown(socket.SHUT_WR)
print(s.makefile().read())'`
	if out, code := m.run(t, "net", client); code != 0 || !strings.Contains(out, "the server\n1000000\n") {
		t.Errorf("%d, %q", code, out)
	}
	got := make(chan int64, 1)
	l := m.listen("93.184.0.10:5999")
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		got <- n
	}()
	if out, code := m.run(t, "net", `exec 3<>/dev/tcp/allowed.example/5999; head -c 300000 /dev/zero >&3`, "-network=allowed.example:5999"); code != 0 {
		t.Fatalf("%d, %s", code, out)
	}
	if n := <-got; n != 300000 {
		t.Errorf("%d bytes arrived", n)
	}
}

// Commands at once do not disturb one another, nor do thousands of connections of one.
func (m *netMachine) many(t *testing.T) {
	commands, connections := 50, 10_000
	if testing.Short() {
		commands, connections = 5, 1_000
	}
	var all sync.WaitGroup
	for range commands {
		all.Go(func() {
			if out, code := m.run(t, "net", "curl -sS http://allowed.example/ && ! curl -sS http://other.example/ 2>/dev/null"); code != 0 {
				t.Errorf("%d, %s", code, out)
			}
		})
	}
	all.Wait()
	// More at once than the gate opens: the rest wait for the first to end.
	const client = `import socket, sys
for _ in range(int(sys.argv[1]) // 500):
    held = [socket.create_connection(("allowed.example", 5432), 60) for _ in range(500)]
    for s in held: assert s.makefile().readline() == "the server\n"; s.close()
print("all")`
	cmd := m.sbxhost("exec", "-sandbox", "net", "-result", m.base+"/many.json", "--", "python3", "-c", client, strconv.Itoa(connections))
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "all\n" {
		t.Errorf("%v, %q", err, out)
	}
	uses := m.uses(t, "many.json")
	uses = slices.DeleteFunc(uses, func(u netUse) bool { return u.Reason == "256 connections are open, and more of them wait" })
	if len(uses) != 1 || uses[0].Connections != connections {
		t.Errorf("%+v", uses)
	}
}

// Whoever is killed, connections end on both sides, no port stays taken, and no process stays.
func (m *netMachine) killed(t *testing.T) {
	const host, engine, init, command = 0, 1, 2, 3 // each is a child of the one before
	for name, c := range map[string]struct {
		who    int
		signal syscall.Signal
		status int // of sbxhost, where it is not the one
	}{
		"the host, asked": {host, syscall.SIGTERM, 0},
		"the host":        {host, syscall.SIGKILL, 0},
		"the engine":      {engine, syscall.SIGKILL, 125},
		"the init":        {init, syscall.SIGKILL, 125},
		"the command":     {command, syscall.SIGKILL, 128 + 9},
	} {
		t.Run(name, func(t *testing.T) {
			published, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			published.Close()
			l := m.listen("93.184.0.10:0")
			_, port, _ := net.SplitHostPort(l.Addr().String())
			m.write("killed.hcl", fmt.Sprintf("sandbox \"s\" {\n  engine = \"native\"\n  network = [\"allowed.example:%s\"]\n  publish = [\"%s:3000\"]\n}\n", port, published.Addr()))
			cmd := m.sbxhost("exec", "-config", m.base+"/killed.hcl", "-sandbox", "s", "--", "python3", "-c", `import socket, sys
held = [socket.create_connection(("allowed.example", int(sys.argv[1]))) for _ in range(20)]
for s in held: s.sendall(b"x")
while True: held[0].recv(1)`, port)
			var out lockedBuffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
			var held []net.Conn
			for range 20 {
				c, err := l.Accept()
				if err == nil {
					_, err = io.ReadFull(c, make([]byte, 1))
				}
				if err != nil {
					cmd.Process.Kill()
					t.Fatalf("%v\n%s", err, out.String())
				}
				defer c.Close()
				held = append(held, c)
			}
			line := []int{cmd.Process.Pid}
			for range command {
				line = append(line, onlyChild(t, line[len(line)-1]))
			}
			var all []*os.File
			for _, pid := range line {
				fd, err := unix.PidfdOpen(pid, 0)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, os.NewFile(uintptr(fd), strconv.Itoa(pid)))
			}
			if err := syscall.Kill(line[c.who], c.signal); err != nil {
				t.Fatal(err)
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); c.who != host && code != c.status {
				t.Errorf("it ended with %d, want %d: %s", code, c.status, out.String())
			}
			for i, process := range all {
				poll := []unix.PollFd{{Fd: int32(process.Fd()), Events: unix.POLLIN}}
				if n, err := unix.Poll(poll, 60_000); n != 1 {
					t.Errorf("process %d of the line lives on: %v", i, err)
				}
				process.Close()
			}
			for _, c := range held {
				c.SetReadDeadline(time.Now().Add(time.Minute))
				if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("a connection lives on: %v", err)
				}
			}
			until(t, "the published port", func() bool {
				again, err := net.Listen("tcp", published.Addr().String())
				if err == nil {
					again.Close()
				}
				return err == nil
			}, out.String)
		})
	}
}

// onlyChild is the child of a process that has one.
func onlyChild(t *testing.T, pid int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var children []string
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread may have ended
		children = append(children, strings.Fields(string(text))...)
	}
	if len(children) != 1 {
		t.Fatalf("process %d has the children %v", pid, children)
	}
	child, err := strconv.Atoi(children[0])
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// A command's end is told where the log of it does not fit the disk, and no command runs then.
func (m *netMachine) fullDisk(t *testing.T) {
	run := func(log, script string) (string, int) {
		m.write("full.hcl", "audit {\n  path = \"full/"+log+"\"\n}\nsandbox \"s\" {\n  engine  = \"native\"\n  network = [\"allowed.example\"]\n}\n")
		return m.run(t, "s", script, "-config", m.base+"/full.hcl")
	}
	const page = 4096
	fill, err := os.Create(m.base + "/full/fill")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, page))
	}
	info, statErr := fill.Stat()
	if !errors.Is(err, syscall.ENOSPC) || statErr != nil {
		t.Fatal(err, statErr)
	}
	// A page is left, for the line that a command begins with: its end says more.
	if err := errors.Join(fill.Truncate(info.Size()-page), fill.Close()); err != nil {
		t.Fatal(err)
	}
	out, code := run("one.jsonl", `for i in $(seq 60); do curl -s http://n$i.a-name-that-takes-its-room-in-the-log.example/; done; curl -sS http://allowed.example/; exit 3`)
	if code != 3 || !strings.Contains(out, "HTTP/1.1 allowed.example 0\n") || !strings.Contains(out, "the command's end is not logged: ") || !strings.Contains(out, "no space left on device") {
		t.Errorf("it ended with %d: %s", code, out)
	}
	if out, code := run("two.jsonl", "echo it runs"); code != 125 || !strings.Contains(out, "no space left on device") || strings.Contains(out, "it runs") {
		t.Errorf("on a full disk: %d, %s", code, out)
	}
}
