package contract

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// keptAsKernelDoes looks for what the kernel keeps of an overlay in which "file" was removed, and "keys"
// made anew.
func (s *subject) keptAsKernelDoes(upper string) {
	var file unix.Stat_t
	err := unix.Lstat(filepath.Join(upper, "file"), &file)
	s.Demand(err == nil && file.Mode&unix.S_IFMT == unix.S_IFCHR && file.Rdev == 0, "a file that was removed is no whiteout there: mode %#o: %v", file.Mode, err)
	const attribute = "user.overlay.opaque"
	value := make([]byte, 16)
	n, err := unix.Lgetxattr(filepath.Join(upper, "keys"), attribute, value)
	s.Demand(err == nil && string(value[:n]) == "y", "a directory that was made anew does not have %s there: %v", attribute, err)
}

// peakMemory is the most that a process ever had in memory at once.
func (s *subject) peakMemory(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	peak := proc.StatusBytes(string(text), "VmHWM")
	s.Demand(peak != 0, "process %d has no memory: it has ended", pid)
	return peak
}

// holdings counts the system's resources that a process has, by their kind.
func (s *subject) holdings(pid int) map[string]int {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	s.Needs(err == nil, "descriptors of the engine's process cannot be counted: %v", err)
	return map[string]int{"open descriptors": len(open), "child processes": len(proc.Children(pid))}
}

// adopt marks a process, and the processes that it has started, by a limit that has no effect. All
// processes that they start later inherit the mark, wherever they go.
func (s *subject) adopt(pid int) (mark uint64) {
	mark = 500_000 + uint64(s.IPCKey()%100_000)
	for family := []int{pid}; len(family) > 0; family = family[1:] {
		var limit unix.Rlimit
		err := unix.Prlimit(family[0], unix.RLIMIT_MSGQUEUE, nil, &limit)
		if limit.Cur = mark; err == nil {
			err = unix.Prlimit(family[0], unix.RLIMIT_MSGQUEUE, &limit, nil)
		}
		s.Needs(err == nil || family[0] != pid, "the engine's process cannot be marked: %v", err)
		family = append(family, proc.Children(family[0])...)
	}
	return mark
}

// marked returns an error while there are processes with a mark.
func marked(mark uint64) error {
	for _, pid := range proc.All() {
		limits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
		if state := proc.Stat(pid, proc.StatState); state != "Z" && state != "X" && bytes.Contains(limits, fmt.Appendf(nil, "Max msgqueue size         %d ", mark)) {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return fmt.Errorf("process %d of it goes on: %q", pid, bytes.Split(bytes.TrimRight(text, "\x00"), []byte{0}))
		}
	}
	return nil
}

// running returns an error unless a process has this command line. A word in angle brackets stands
// for any word, and a plan may have, in place of a descriptor, what a launcher reads from it. A
// launcher that becomes its command, as sandbox-exec does, cannot be seen: the command is then a
// child of the engine.
func running(argv []string) error {
	if !strings.HasPrefix(argv[0], "/") && !strings.HasPrefix(argv[0], "<") {
		return nil // a line for people: what launches is no process that the engine starts
	}
	for _, pid := range proc.All() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
		same := func(i, j int) bool { return argv[j] == words[i] || strings.ContainsAny(argv[j], "<>") }
		n, begin, end := min(len(words), len(argv)), 0, 0
		for begin < n && same(begin, begin) {
			begin++
		}
		for end < n-begin && same(len(words)-1-end, len(argv)-1-end) {
			end++
		}
		rest := words[begin : len(words)-end]
		if len(rest) == 0 && len(words) == len(argv) {
			return nil
		}
		if at := slices.Index(argv, "--"); at > 0 && proc.Stat(pid, proc.StatParent) == strconv.Itoa(os.Getpid()) && slices.Equal(words, argv[at+1:]) {
			return nil
		}
		if len(rest) == 2 && begin > 0 && len(argv) > len(words) {
			if _, err := strconv.ParseUint(rest[1], 10, 16); err == nil && strings.HasPrefix(rest[0], "-") {
				return nil // --args 5
			}
		}
	}
	return fmt.Errorf("no process has the command line %q", argv)
}
