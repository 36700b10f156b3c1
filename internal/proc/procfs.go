package proc

import (
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Fields of a process's stat, by their numbers in proc(5).
const (
	StatState  = 3
	StatParent = 4
	StatGroup  = 5
	StatFlags  = 9
	StatStart  = 22 // in ticks since the boot: distinguishes processes with the same number
)

// Stat returns a field of a process's stat; "" if the process no longer exists.
func Stat(pid, field int) string {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return StatField(string(text), field)
}

// StatField returns a field of a stat's text; "" if it has none. The name, in parentheses, may
// contain anything, also parentheses and blanks.
func StatField(text string, field int) string {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if i := field - StatState; i < len(fields) {
		return fields[i]
	}
	return ""
}

// CommandLine returns up to most bytes of a process's command line, in /proc's form. A process can make
// its own as long as its memory, which it need not have.
func CommandLine(pid, most int) ([]byte, error) {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(most)))
}

// Tick is the unit of times in stat: USER_HZ, which is the same on every machine that Go runs on.
const Tick = time.Second / 100

// StatusField returns the value of a name such as "PPid" in a status's text; "" for none.
func StatusField(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// StatusBytes returns the value of a name such as "VmRSS", an amount of memory; 0 for none.
func StatusBytes(text, name string) int64 {
	kib, _ := strconv.ParseInt(strings.TrimSuffix(StatusField(text, name), " kB"), 10, 64)
	return kib << 10
}

// Unescaped undoes the octal escapes of a field of mountinfo.
var Unescaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\043`, "#", `\134`, `\`)

// All returns the numbers of all visible processes.
func All() []int {
	pids, _ := numbers("/proc")
	return pids
}

// Children returns the children of all threads of a process; none if it has ended.
func Children(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, _ := numbers(dir)
	var out []int
	for _, task := range tasks {
		list, _ := os.ReadFile(filepath.Join(dir, strconv.Itoa(task), "children"))
		for _, child := range strings.Fields(string(list)) {
			if n, err := strconv.Atoi(child); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// Descendants returns the children of all threads of a process, and their descendants.
func Descendants(pid int) (list []int) {
	for _, child := range Children(pid) {
		list = append(append(list, child), Descendants(child)...)
	}
	return list
}

// Stopped reports whether SIGSTOP, or a similar signal, has stopped a process. A traced process
// does not count.
func Stopped(pid int) bool {
	return Stat(pid, StatState) == "T"
}
