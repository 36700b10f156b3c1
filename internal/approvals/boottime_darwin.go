package approvals

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the present moment. CLOCK_MONOTONIC counts through sleep here.
func Now() (BootTime, error) {
	boot, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return BootTime{}, fmt.Errorf("this boot's id: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return BootTime{}, fmt.Errorf("time since boot: %w", err)
	}
	return BootTime{Boot: boot, Elapsed: time.Duration(now.Nano())}, nil
}

// LoginSession names the session of this process. The start time of the session's leader
// distinguishes it from earlier sessions with the same number.
func LoginSession() (string, error) {
	leader, err := unix.Getsid(0)
	if err != nil || leader <= 0 {
		return "", ErrNoSession
	}
	info, err := unix.SysctlKinfoProc("kern.proc.pid", leader)
	if err != nil {
		return "", fmt.Errorf("%w: its leader has ended", ErrNoSession)
	}
	start := info.Proc.P_starttime
	return fmt.Sprintf("sid:%d@%d.%d", leader, start.Sec, start.Usec), nil
}
