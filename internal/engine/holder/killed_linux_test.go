package holder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

func TestKilledHolder(t *testing.T) {
	t.Parallel()
	dir := session(t)
	lower := tempDir(t)
	ops := append(system(), Op{Kind: Overlay, Source: lower, Dest: "/0/o"})
	for i := range 5 {
		c := connect(t, dir)
		l, r, err := start(t, c, ops, "echo up; exec sleep 1000")
		if err != nil {
			t.Fatal(err)
		}
		io.ReadFull(r, make([]byte, 3))
		syscall.Kill(c.Pid(), syscall.SIGKILL)
		if _, err := l.Wait(); !errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
		if runs(l.Pid()) {
			t.Error("the launcher lives on")
		}
		if _, _, err := start(t, c, ops, "true"); !errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
		next := connect(t, dir)
		if got := sh(t, next, ops, "cd /.tree/0/o; echo x >> f; wc -l < f"); strings.TrimSpace(got) != strconv.Itoa(i+1) {
			t.Errorf("%d: %q", i, got)
		}
		next.Close()
	}
}

// Holders are killed at any moment, that of their election among them: who waits is
// told, and what was written through one is there in the next.
func TestManyWhileHoldersAreKilled(t *testing.T) {
	t.Parallel()
	dir := session(t)
	lower := tempDir(t)
	ops := append(system(), Op{Kind: Overlay, Source: lower, Dest: "/0/o"})
	stop := make(chan struct{})
	var connected, holder, killed atomic.Int64
	go func() {
		seen := int64(0)
		const often = 7 * time.Millisecond
		for pause := often; ; {
			select {
			case <-stop:
				return
			case <-time.After(pause): // the moments are what is tried
				if pid := int(holder.Swap(0)); pid != 0 && syscall.Kill(pid, syscall.SIGKILL) == nil {
					killed.Add(1)
				}
				// Where a holder takes longer than that to start, none ever would.
				if now := connected.Load(); now != seen {
					pause, seen = often, now
				} else {
					pause = pause * 5 / 4
				}
			}
		}
	}()
	var all sync.WaitGroup
	var wrote [4]int
	for i := range wrote {
		all.Go(func() {
			for n := 0; n < rounds(25) || killed.Load() == 0; n++ { // the pause can be long where the first start was
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				c, err := Connect(ctx, Config{Dir: dir, Executable: self})
				cancel()
				connected.Add(1) // or told that it cannot be
				if err != nil {
					if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrLost) {
						t.Error(err)
					}
					continue
				}
				holder.Store(int64(c.Pid()))
				l, r, err := start(t, c, ops, fmt.Sprintf("echo x >> /.tree/0/o/f%d && echo wrote", i))
				if err == nil {
					out, _ := io.ReadAll(r)
					if string(out) == "wrote\n" {
						wrote[i]++
					}
					_, err = l.Wait()
				}
				if _, refused := errors.AsType[*MountError](err); err != nil && !errors.Is(err, ErrLost) && !refused {
					t.Error(err)
				}
				holder.Store(0)
				c.Close()
			}
		})
	}
	all.Wait()
	close(stop)
	c := connect(t, dir)
	for i, n := range wrote {
		got, _ := strconv.Atoi(strings.TrimSpace(sh(t, c, ops, fmt.Sprintf("cat /.tree/0/o/f%d | wc -l", i))))
		if got < n {
			t.Errorf("%d lines of the %d that were written", got, n)
		}
	}
}

// A holder that is killed while it makes a tree leaves nothing of it that the next
// one would trip over, and who waits for the tree is told.
func TestKilledWhilePreparing(t *testing.T) {
	t.Parallel()
	dir := session(t)
	lower, many := tempDir(t), tempDir(t)
	ops := append(system(), Op{Kind: Overlay, Source: lower, Dest: "/0/o"})
	for i := range 3000 {
		ops = append(ops, Op{Kind: ReadOnlyBind, Source: many, Dest: "/0/many/" + strconv.Itoa(i)})
	}
	first := connect(t, dir)
	begun := time.Now()
	sh(t, first, ops, "true")
	whole := time.Since(begun)
	first.Close()
	awaitEnd(dir)
	early := 0
	const moments = 6
	for i := range moments {
		c := connect(t, dir)
		pid := c.Pid()
		timer := time.AfterFunc(whole*time.Duration(i)/moments, func() { syscall.Kill(pid, syscall.SIGKILL) })
		l, _, err := start(t, c, ops, "exec sleep 1000")
		if err != nil {
			early++
		} else {
			_, err = l.Wait()
		}
		timer.Stop()
		if !errors.Is(err, ErrLost) {
			t.Errorf("%d: %v", i, err)
		}
		next := connect(t, dir)
		if got := sh(t, next, append(system(), ops[len(system())]), "echo x >> /.tree/0/o/f; wc -l < /.tree/0/o/f"); strings.TrimSpace(got) != strconv.Itoa(i+1) {
			t.Errorf("%d: %q", i, got)
		}
		next.Close()
		awaitEnd(dir)
	}
	if early == 0 {
		t.Error("no tree was being made: that tried nothing")
	}
}

// A holder that is killed while its last client leaves, or has left anyway, is no
// obstacle to the next.
func TestKilledWhileLeaving(t *testing.T) {
	t.Parallel()
	dir := session(t)
	lower := tempDir(t)
	ops := append(system(), Op{Kind: Overlay, Source: lower, Dest: "/0/o"})
	for i := range 12 {
		c := connect(t, dir)
		pid := c.Pid()
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := sh(t, c, ops, "echo x >> /.tree/0/o/f; wc -l < /.tree/0/o/f"); strings.TrimSpace(got) != strconv.Itoa(i+1) {
			t.Errorf("%d: %q", i, got)
		}
		c.Close()
		for range i * 20 { // a moment later each time
			syscall.Getppid()
		}
		unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		unix.Close(pidfd)
	}
}

// A holder that is stopped is killed once somebody has waited for it in vain: who starts
// a launcher, and who has killed one.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	dir := session(t)
	ops := system()
	stop := func(c *Client) {
		t.Helper()
		pid := c.Pid()
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		// A thread that has not heard of it yet could still answer.
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			for tid, _ := strconv.Atoi(task.Name()); runs(tid) && !proc.Stopped(tid); {
				runtime.Gosched()
			}
		}
	}
	lost := func(c *Client) {
		t.Helper()
		select {
		case <-c.Lost():
		case <-time.After(time.Minute):
			t.Fatal("the stopped holder lives on")
		}
	}
	limit := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}

	c := connect(t, dir)
	l, r, err := start(t, c, ops, "echo up; exec sleep 1000")
	if err != nil {
		t.Fatal(err)
	}
	io.ReadFull(r, make([]byte, 3))
	stop(c)
	l.Kill()
	l.Wait()
	lost(c)

	// Who gives up a start takes the files back that the holder has not read.
	c = connect(t, dir)
	stop(c)
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	if _, err := c.Start(limit(), Start{Plan: NewPlan(ops), Argv: []string{"/bin/sh"}, Files: []*os.File{write}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a start that was given up: %v", err)
	}
	write.Close()
	read.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := read.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the files of a start that was given up: %v", err)
	}
}
