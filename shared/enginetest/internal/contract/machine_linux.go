package contract

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
	"github.com/sbxhost/sbxhost/shared/proc"
	"golang.org/x/sys/unix"
)

// peakMemory is the most that a process ever had in memory at once.
func peakMemory(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(peak), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no memory: it has ended", pid)
}

// holdings counts what a process has of the system, by what it is.
func holdings(pid int) (map[string]int, error) {
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, scene.AbsentError("descriptors of the engine's process cannot be counted: " + err.Error())
	}
	children := 0
	for _, p := range allProcesses() {
		if p.parent == pid {
			children++
		}
	}
	return map[string]int{"open descriptors": len(open), "child processes": children}, nil
}

// A process of this machine.
type process struct {
	pid, parent int
	begun       string // tells it from another that has its number later
	gone        bool   // nobody has waited for it yet
}

func allProcesses() (list []process) {
	for _, pid := range proc.All() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue // it has ended
		}
		field := func(n int) string { return proc.StatField(string(text), n) }
		parent, _ := strconv.Atoi(field(proc.StatParent))
		state := field(proc.StatState)
		list = append(list, process{pid, parent, field(proc.StatStart), state == "Z" || state == "X"})
	}
	return list
}

// A family is what a process has started, and those that they have.
type family struct {
	members map[process]bool // that were found below it
	mark    uint64
}

// adopt marks a process by a limit that nobody cares about. All that it starts from then on
// have the mark, also when they have left the family.
func adopt(s *subject, pid int) (*family, error) {
	f := &family{members: map[process]bool{}, mark: 500_000 + uint64(s.IPCKey()%100_000)}
	var limit unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_MSGQUEUE, nil, &limit)
	if limit.Cur = f.mark; err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_MSGQUEUE, &limit, nil)
	}
	if err != nil {
		return nil, scene.AbsentError("the engine's process cannot be marked: " + err.Error())
	}
	return f, nil
}

// look finds those that were started before the mark.
func (f *family) look(pid int) {
	all := allProcesses()
	for parents := []int{pid}; len(parents) > 0; parents = parents[1:] {
		for _, p := range all {
			if p.parent == parents[0] && !p.gone {
				p.parent = 0 // which changes
				f.members[p] = true
				parents = append(parents, p.pid)
			}
		}
	}
}

// lives is an error while there are any of them.
func (f *family) lives() error {
	for _, p := range allProcesses() {
		p.parent = 0
		limits, _ := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.pid))
		marked := bytes.Contains(limits, fmt.Appendf(nil, "Max msgqueue size         %d ", f.mark))
		if !p.gone && (marked || f.members[p]) {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
			return fmt.Errorf("process %d of it goes on: %q", p.pid, bytes.Split(bytes.TrimRight(text, "\x00"), []byte{0}))
		}
	}
	return nil
}

// running wants a process with a command line. A word in angle brackets stands for any, and a
// plan may have what a launcher reads by a descriptor in the place of that descriptor. A
// launcher that becomes its command, as sandbox-exec does, cannot be seen: the command is then
// a child of the engine.
func running(argv []string) error {
	if !strings.HasPrefix(argv[0], "/") && !strings.HasPrefix(argv[0], "<") {
		return nil // a line for people: what launches is no process that the engine starts
	}
	for _, p := range allProcesses() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
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
		if at := slices.Index(argv, "--"); at > 0 && p.parent == os.Getpid() && slices.Equal(words, argv[at+1:]) {
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
