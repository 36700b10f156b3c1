package approvals

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Now gives the present moment.
func Now() (Moment, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Moment{}, fmt.Errorf("this boot's id: %w", err)
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return Moment{}, fmt.Errorf("time since boot: %w", err)
	}
	offset, err := bootOffset()
	if err != nil {
		return Moment{}, fmt.Errorf("time since boot: %w", err)
	}
	return Moment{Boot: strings.TrimSpace(string(boot)), Elapsed: time.Duration(now.Nano()) - offset}, nil
}

// bootOffset is what this process's time namespace adds to the time since boot.
// A container that is set back would have approvals live on otherwise.
func bootOffset() (time.Duration, error) {
	text, err := os.ReadFile("/proc/self/timens_offsets")
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil // a kernel without such namespaces
	} else if err != nil {
		return 0, err
	}
	offset, err := parseOffsets(string(text))
	if err != nil || offset == 0 {
		return 0, err
	}
	// They are those of our children, who may be elsewhere.
	ours, err := os.Readlink("/proc/self/ns/time")
	theirs, theirErr := os.Readlink("/proc/self/ns/time_for_children")
	if err := errors.Join(err, theirErr); err != nil {
		return 0, err
	}
	if ours != theirs {
		return 0, errors.New("the time namespace of this process is not that of its children")
	}
	return offset, nil
}

func parseOffsets(text string) (time.Duration, error) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] != "boottime" {
			continue
		}
		seconds, err := strconv.ParseInt(fields[1], 10, 64)
		nanoseconds, nanoErr := strconv.ParseInt(fields[2], 10, 64)
		if err := errors.Join(err, nanoErr); err != nil {
			return 0, err
		}
		return time.Duration(seconds)*time.Second + time.Duration(nanoseconds), nil
	}
	return 0, errors.New("/proc/self/timens_offsets has no line on boottime")
}

// noAuditSession is what the kernel gives a process that nobody has logged in
// for: (uint32)-1.
const noAuditSession = "4294967295"

// LoginSession names the login session that this process belongs to: the one
// that the kernel keeps for its audit, which no process can leave, or the
// session of its terminal, told from earlier ones of that number by the time
// at which its leader started.
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
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(leader) + "/stat")
	if err != nil {
		return "", fmt.Errorf("%w: its leader has ended", ErrNoSession)
	}
	// The name, in parentheses, can hold anything; the start is field 22.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", ErrNoSession
	}
	return fmt.Sprintf("sid:%d@%s", leader, fields[19]), nil
}
