package owner

import (
	"os"
	"strings"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Label marks a container with the engine process that has made it.
const Label = "org.sbxhost.owner"

// This is this process, so that another can see when it is gone: a process number alone can become
// another process's.
func This() Owner {
	return Owner{Boot: Boot(), Namespace: PidNamespace(), PID: os.Getpid(), Started: startTime(os.Getpid())}
}

// Gone reports whether the process certainly does not run any more. One in another pid namespace
// cannot be seen from here.
func (o Owner) Gone() bool {
	if boot := Boot(); o.Boot != boot {
		return boot != ""
	}
	return o.Namespace == PidNamespace() && startTime(o.PID) != o.Started
}

func Boot() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.ReplaceAll(strings.TrimSpace(string(raw)), "-", "")
}

func PidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(name, "pid:[]")
}

// startTime is a process's in ticks since the boot, empty if there is none.
func startTime(pid int) string {
	return proc.Stat(pid, proc.StatStart)
}
