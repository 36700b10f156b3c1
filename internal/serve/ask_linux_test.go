package serve

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// A signal that reached the server after the command's end is the client's. One that came in time
// is not: the command may have handled it, and how it ended is its answer to a later one.
func TestLateSignal(t *testing.T) {
	for taken, want := range []int{130, 0, 0} {
		_, l, path := listen(t)
		served := make(chan error, 1)
		go func() {
			conn, err := l.AcceptUnix()
			if err != nil {
				served <- err
				return
			}
			defer conn.Close()
			raw, err := conn.SyscallConn()
			if err != nil {
				served <- err
				return
			}
			server := frame.Over(raw)
			defer server.Discard()
			challenge, err := NewChallenge()
			if err != nil {
				served <- err
				return
			}
			defer challenge.Close()
			server.Write(KindWelcome, challenge.Number())
			if _, _, err = server.Next(MaxMessage); err == nil {
				server.Write(KindBegin, Empty{})
				unix.Kill(os.Getpid(), unix.SIGINT)
				_, _, err = server.Next(MaxMessage)
			}
			if err == nil && taken == 2 {
				taken = 1
				unix.Kill(os.Getpid(), unix.SIGTERM)
				_, _, err = server.Next(MaxMessage)
			}
			end := Ended(0, 0, taken)
			server.Write(KindExit, &end)
			served <- err
		}()
		status, ended, err := (&Client{}).Ask(path, os.Args[0])
		if failed := <-served; err != nil || failed != nil {
			t.Fatal(err, failed)
		}
		if status != want || status != 0 && ended != syscall.SIGINT {
			t.Errorf("%d taken: status %d, %v", taken, status, ended)
		}
	}
}
