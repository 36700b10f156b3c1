package driver

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// usage is the resources that processes have used.
type usage struct {
	user, system time.Duration
	rss, swap    uint64
}

// TaskStats reports repeatedly what the task's processes use.
func (e *executor) TaskStats(req *proto.TaskStatsRequest, stream proto.Driver_TaskStatsServer) error {
	if err := e.running(); err != nil {
		return err
	}
	interval := req.GetCollectionInterval().AsDuration()
	if interval <= 0 {
		return errors.New("collection_interval: it is not above zero")
	}
	next := time.NewTicker(interval)
	defer next.Stop()
	mhz, has := 0.0, e.task.GetResources().GetLinuxResources() // of one processor, as the agent counts it
	if part := has.GetPercentTicks(); part > 0 {
		mhz = float64(has.GetCpuShares()) / part / float64(runtime.NumCPU())
	}
	before, at := descendants(os.Getpid()), time.Now()
	for {
		select {
		case <-e.ended:
			return nil
		case <-stream.Context().Done():
			return nil
		case <-next.C:
		}
		now, time := descendants(os.Getpid()), time.Now()
		stats := taskUsage(before, now, time.Sub(at), mhz)
		if err := stream.Send(&proto.TaskStatsResponse{Stats: &proto.TaskStats{Id: e.task.Id, Timestamp: timestamppb.New(time), AggResourceUsage: stats}}); err != nil {
			return err
		}
		before, at = now, time
	}
}

// taskUsage is the use between two measurements. It is never negative: when a process ends, its
// time can move to its parent or disappear.
func taskUsage(before, now usage, elapsed time.Duration, mhz float64) *proto.TaskResourceUsage {
	percent := func(before, now time.Duration) float64 {
		return 100 * float64(max(now-before, 0)) / float64(elapsed)
	}
	cpu := &proto.CPUUsage{UserMode: percent(before.user, now.user), SystemMode: percent(before.system, now.system),
		MeasuredFields: []proto.CPUUsage_Fields{proto.CPUUsage_USER_MODE, proto.CPUUsage_SYSTEM_MODE, proto.CPUUsage_PERCENT}}
	cpu.Percent = cpu.UserMode + cpu.SystemMode
	if mhz > 0 {
		cpu.TotalTicks = cpu.Percent / 100 * mhz
		cpu.MeasuredFields = append(cpu.MeasuredFields, proto.CPUUsage_TOTAL_TICKS)
	}
	return &proto.TaskResourceUsage{Cpu: cpu, Memory: &proto.MemoryUsage{Rss: now.rss, Usage: now.rss, Swap: now.swap,
		MeasuredFields: []proto.MemoryUsage_Fields{proto.MemoryUsage_RSS, proto.MemoryUsage_USAGE, proto.MemoryUsage_SWAP}}}
}

// descendants sums the present and past use of the processes below one.
func descendants(pid int) (sum usage) {
	for _, pid := range proc.Descendants(pid) {
		dir := fmt.Sprintf("/proc/%d/", pid)
		stat, _ := os.ReadFile(dir + "stat")
		status, _ := os.ReadFile(dir + "status")
		sum.add(string(stat), string(status))
	}
	return sum
}

// add adds what /proc/PID/stat and status say. The times include ended children that their parent
// has waited for.
func (u *usage) add(stat, status string) {
	ticks := func(field int) time.Duration {
		n, _ := strconv.ParseInt(proc.StatField(stat, field), 10, 64)
		return time.Duration(n) * proc.Tick
	}
	u.user += ticks(14) + ticks(16)
	u.system += ticks(15) + ticks(17)
	u.rss += uint64(proc.StatusBytes(status, "VmRSS"))
	u.swap += uint64(proc.StatusBytes(status, "VmSwap"))
}
