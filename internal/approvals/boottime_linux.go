package approvals

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// Now returns the present moment.
func Now() (BootTime, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return BootTime{}, fmt.Errorf("this boot's id: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return BootTime{}, fmt.Errorf("time since boot: %w", err)
	}
	return BootTime{Boot: strings.TrimSpace(string(boot)), Elapsed: time.Duration(now.Nano())}, nil
}

// noAuditSession is the kernel's value for a process without a login: (uint32)-1.
const noAuditSession = "4294967295"

// LoginSession names the login session of this process: the kernel's audit session, which no
// process can leave, or the session of its terminal. The start time of the terminal session's
// leader distinguishes it from earlier sessions with the same number.
func LoginSession() (string, error) {
	if id, err := os.ReadFile("/proc/self/sessionid"); err == nil {
		if s := strings.TrimSpace(string(id)); s != noAuditSession && s != "" {
			return "login:" + s, nil
		}
	}
	leader, err := unix.Getsid(0)
	if err != nil || leader <= 0 {
		return "", ErrNoSession
	}
	start := proc.Stat(leader, proc.StatStart)
	if start == "" {
		return "", fmt.Errorf("%w: its leader has ended", ErrNoSession)
	}
	return fmt.Sprintf("sid:%d@%s", leader, start), nil
}
