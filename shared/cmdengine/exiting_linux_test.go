package cmdengine

import (
	"bufio"
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// A pid 1 that was killed waits while another's child in its namespace is a zombie.
func TestExiting(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("unshare", "--user", "--pid", "sh", "-c", "sleep 1000 & echo $!; sleep 1000 & echo $!; read end")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil || err1 != nil || err2 != nil {
		t.Fatal(err, err1, err2)
	}
	defer cmd.Wait()
	defer in.Close()
	var first, member int
	if _, err := fmt.Fscan(bufio.NewReader(out), &first, &member); err != nil {
		t.Fatal(err)
	}
	if exiting(first) || exiting(member) {
		t.Error("they run")
	}
	syscall.Kill(first, syscall.SIGKILL)
	for deadline := time.Now().Add(patience); !exiting(first) || proc.Stat(first, proc.StatState) != "S"; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not seen that pid 1 was killed, or pid 1 does not wait for the other")
		}
	}
}
