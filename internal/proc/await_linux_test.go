package proc

import (
	"os/exec"
	"runtime/pprof"
	"sync"
	"testing"
)

// Who waits for children has no thread in the kernel for each: that would keep a processor from
// Go code for as long as the runtime does not look.
func TestAwait(t *testing.T) {
	const children = 30
	threads := pprof.Lookup("threadcreate")
	var awaiting sync.WaitGroup
	var release []func() error
	var before int
	for range children {
		cmd := exec.Command("cat")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		release = append(release, stdin.Close)
		begun := make(chan struct{})
		awaiting.Go(func() {
			close(begun)
			Await(cmd.Process.Pid)
			if state := Stat(cmd.Process.Pid, StatState); state != "Z" {
				t.Errorf("after Await the child's state is %q", state)
			}
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
		<-begun
		if before == 0 {
			before = threads.Count()
		}
	}
	for _, end := range release {
		end()
	}
	awaiting.Wait()
	if more := threads.Count() - before; more > children/2 {
		t.Errorf("%d threads more for %d children", more, children)
	}
}
