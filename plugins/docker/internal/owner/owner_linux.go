package owner

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/proc"
	"golang.org/x/sys/unix"
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

// LockDir keeps other engines from doing the same to the same volumes.
func LockDir(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := hostpath.Lock(ctx, int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, cmp.Or(ctx.Err(), err)
	}
	return func() { f.Close() }, nil
}
