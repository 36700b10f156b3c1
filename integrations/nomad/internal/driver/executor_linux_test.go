package driver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The tests here are the agent's side: they start the driver as an agent does, and speak
// Nomad's protocol to it.

func TestStats(t *testing.T) {
	r := newRig(t)
	j := r.task(script(`: >ready; while ! test -e stop; do :; done`)).start()
	j.untilFile("ready")
	stream, err := r.calls.TaskStats(t.Context(), &proto.TaskStatsRequest{TaskId: j.config.Id, CollectionInterval: durationpb.New(100 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	r.until("the task is busy", func() bool {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		u := m.Stats.AggResourceUsage
		return m.Stats.Id == j.config.Id && u.Cpu.Percent > 10 && u.Memory.Rss > 100<<10
	})
	j.release()
	j.wait()
	for err == nil { // it ends with the task
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	r := newRig(t)
	stream, err := r.calls.TaskEvents(t.Context(), &proto.TaskEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	j := r.task(script("cat /etc/shadow")).start()
	m, err := stream.Recv()
	if err != nil || m.TaskId != j.config.Id || m.AllocId != j.config.AllocId || m.TaskName != "t" || !strings.Contains(m.Message, "/etc/shadow") {
		t.Errorf("%v, %v", m, err)
	}
}

// A task goes on without its driver, and the next one finds it.
func TestRecover(t *testing.T) {
	r := newRig(t)
	j := r.task(script(untilStopped)).start()
	brief := r.task(script(`: >ready; while ! test -e stop; do sleep 0.05; done; exit 6`)).start()
	j.untilFile("ready")
	brief.untilFile("ready")
	again := func() {
		t.Helper()
		if err := unix.Kill(r.plug.ReattachConfig().Pid, unix.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r.until("the driver is gone", r.plug.Exited)
	}
	again()
	brief.release() // it ends while there is no driver
	brief.until("it has ended", func() bool { out := <-brief.stdout; return out == "" })
	r.startDriver()
	for range 2 { // what is known is no error
		for _, h := range []*proto.TaskHandle{j.handle, brief.handle} {
			if _, err := r.calls.RecoverTask(t.Context(), &proto.RecoverTaskRequest{TaskId: h.Config.Id, Handle: h}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := brief.wait(); got.Result.ExitCode != 6 {
		t.Errorf("ended meanwhile: %v", got)
	}
	if status, err := r.calls.InspectTask(t.Context(), &proto.InspectTaskRequest{TaskId: j.config.Id}); err != nil || status.Task.State != proto.TaskState_RUNNING {
		t.Errorf("%v, %v", status, err)
	}
	j.release()
	if got := j.wait(); got.Result.ExitCode != 6 || got.Err != "" {
		t.Errorf("%v", got)
	}
	if _, err := r.calls.DestroyTask(t.Context(), &proto.DestroyTaskRequest{TaskId: j.config.Id}); err != nil {
		t.Error(err)
	}
	r.goneExecutor(j)

	// An executor that was killed takes its task along, now and for the next driver.
	j = r.task(script(untilStopped)).start()
	j.untilFile("ready")
	if err := unix.Kill(j.decoded().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := j.wait(); got.Err != "the task's executor has ended: it was killed" || got.Result == nil {
		t.Errorf("%v", got)
	}
	if out := <-j.stdout; out != "" { // the end of its last writer
		t.Errorf("%q", out)
	}
	again()
	r.startDriver()
	if _, err := r.calls.RecoverTask(t.Context(), &proto.RecoverTaskRequest{Handle: j.handle}); err == nil || !strings.Contains(err.Error(), "executor has ended") {
		t.Errorf("recovered: %v", err)
	}
	r.goneExecutor(j)
}

func (j *job) decoded() (h handle) {
	j.Helper()
	if err := json.Unmarshal(j.handle.DriverState, &h); err != nil {
		j.Fatal(err)
	}
	return h
}

// An executor that hangs does not keep its driver from ending the task.
func TestStoppedExecutor(t *testing.T) {
	r := newRig(t)
	j := r.task(script(untilStopped)).start()
	j.untilFile("ready")
	if err := unix.Kill(j.decoded().PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := r.calls.DestroyTask(t.Context(), &proto.DestroyTaskRequest{TaskId: j.config.Id, Force: true}); err != nil {
		t.Error(err)
	}
	r.goneExecutor(j)
	if out := <-j.stdout; out != "" {
		t.Errorf("%q", out)
	}
}

// Who reads the log may end before the task, and come again.
func TestLogReaderEnds(t *testing.T) {
	r := newRig(t)
	j := r.task(script(`echo one; : >ready; while ! test -e stop; do sleep 0.05; done; echo two`))
	j.closeReader()
	j.start()
	j.untilFile("ready")
	next, err := os.OpenFile(j.config.StdoutPath, os.O_RDWR, 0) // who only reads would wait for ever if the task ended first
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	j.release()
	if got := j.wait(); got.Result.ExitCode != 0 {
		t.Errorf("%v", got)
	}
	out := make([]byte, len("one\ntwo\n"))
	if _, err := io.ReadFull(next, out); err != nil || string(out) != "one\ntwo\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// closeReader has the log's reader end before the task starts.
func (j *job) closeReader() {
	j.Helper()
	file, err := os.OpenFile(j.config.StdoutPath, os.O_WRONLY, 0)
	if err != nil {
		j.Fatal(err)
	}
	file.Close()
	<-j.stdout
}

func TestManyAtOnce(t *testing.T) {
	r := newRig(t)
	n := 50
	if testing.Short() {
		n = 12
	}
	var all sync.WaitGroup
	for i := range n {
		j := r.task(script("echo $1", fmt.Sprint(i)))
		all.Go(func() {
			if err := j.tryStart(); err != nil {
				t.Error(err)
				return
			}
			if got, err := r.calls.WaitTask(t.Context(), &proto.WaitTaskRequest{TaskId: j.config.Id}); err != nil || got.Result.ExitCode != 0 || got.Err != "" {
				t.Errorf("%v, %v", got, err)
			}
			if out := <-j.stdout; out != fmt.Sprintln(i) {
				t.Errorf("%d: %q", i, out)
			}
		})
	}
	all.Wait()
}
