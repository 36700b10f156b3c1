package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// TestMain makes the test binary a writer of its own where it is asked to.
func TestMain(m *testing.M) {
	path := os.Getenv("AUDIT_PATH")
	if path == "" {
		os.Exit(m.Run())
	}
	lockPatience = 10 * time.Minute // whoever has the lock goes on, however slow the machine is
	if limit, _ := strconv.ParseUint(os.Getenv("AUDIT_FSIZE"), 10, 64); limit > 0 {
		// Go ignores SIGXFSZ: the write then says EFBIG.
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	log, err := New(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	count, _ := strconv.Atoi(os.Getenv("AUDIT_COUNT"))
	for i := 0; count == 0 || i < count; i++ {
		if err := log.Append(Record{Event: EventDecision, Command: os.Getenv("AUDIT_NAME"), PID: i, Argv: []string{strings.Repeat("x", i%700)}}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

func writer(path, name string, env ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "AUDIT_PATH="+path, "AUDIT_NAME="+name), env...)
	return cmd
}

// readLog gives the records of a file; each line must be whole.
func readLog(t *testing.T, path string) []Record {
	t.Helper()
	list, torn := readTorn(t, path)
	if torn > 0 {
		t.Errorf("%s has %d lines that are not whole", path, torn)
	}
	return list
}

// readTorn gives the records of a file, and how many lines are not whole.
func readTorn(t *testing.T, path string) (list []Record, torn int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		t.Errorf("%s ends in half a line", path)
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			torn++
			continue
		}
		list = append(list, r)
	}
	return list, torn
}

// tempDir has no symlink in its path, as a resolved log has none: macOS has one there.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func testLog(t *testing.T, path string) *Log {
	t.Helper()
	if path == "" {
		path = filepath.Join(tempDir(t), "log", "audit.jsonl")
	}
	l, err := New(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustAppend(t *testing.T, l *Log, r Record) {
	t.Helper()
	if err := l.Append(r); err != nil {
		t.Fatal(err)
	}
}

func TestAppend(t *testing.T) {
	t.Parallel()
	l := testLog(t, "")
	code := 3
	mustAppend(t, l, Record{Event: EventDecision, Command: "a", Argv: []string{"true"}, Decision: "sandboxed", Time: time.Unix(1, 0)})
	mustAppend(t, l, Record{Event: EventEnd, Command: "a", ExitCode: &code})
	list := readLog(t, l.path)
	if len(list) != 2 || list[0].Event != EventDecision || list[1].Event != EventEnd || *list[1].ExitCode != 3 || list[0].Version != 1 {
		t.Errorf("%+v", list)
	}
	if info, err := os.Stat(l.path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := (*Log)(nil).Append(Record{}); err != nil {
		t.Errorf("no log: %v", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if l, err := New(""); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	if l, err := New("relative"); l != nil || err == nil || !strings.HasPrefix(err.Error(), "Options.AuditLog") {
		t.Errorf("%v, %v", l, err)
	}
}

// No argument can end a line, hide what follows, or reach a terminal.
func TestEscaped(t *testing.T) {
	t.Parallel()
	l := testLog(t, "")
	for _, arg := range []string{"a\nb", "\x1b[2J", "\u202eevil", "\u009b2J", "\x7f", "tab\t", "\u2028", "😀", `quo"te\`, "\x00"} {
		mustAppend(t, l, Record{Argv: []string{arg}})
		list := readLog(t, l.path)
		if got := list[len(list)-1].Argv[0]; got != arg {
			t.Errorf("%q is read as %q", arg, got)
		}
	}
	mustAppend(t, l, Record{Argv: []string{"ok", "\xff\x1b"}})
	list := readLog(t, l.path)
	if r := list[len(list)-1]; string(r.Raw[1]) != "\xff\x1b" {
		t.Errorf("%+v", r)
	}
	mustAppend(t, l, Record{Script: "\xff\u2028", Dir: "/\xfe"})
	list = readLog(t, l.path)
	if r := list[len(list)-1]; string(r.RawScript) != "\xff\u2028" || string(r.RawDir) != "/\xfe" || list[0].RawScript != nil || list[0].RawDir != nil {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range text {
		if b != '\n' && (b < ' ' || b > '~') {
			t.Fatalf("there is a byte %#x in it", b)
		}
	}
	if got := bytes.Count(text, []byte("\n")); got != len(list) {
		t.Errorf("%d lines for %d records", got, len(list))
	}
}

func TestShortened(t *testing.T) {
	t.Parallel()
	l := testLog(t, "")
	long := strings.Repeat("y", 2<<20)
	many := make([]string, 100_000)
	for _, r := range []Record{{Argv: []string{"x", long, "z"}}, {Argv: many}, {Script: long}, {Error: long}} {
		mustAppend(t, l, r)
	}
	mustAppend(t, l, Record{Argv: []string{"x"}})
	// What is cut off in the middle of a character was text, and stays that.
	for shift := range 4 {
		emoji := strings.Repeat("x", shift) + strings.Repeat("\U0001f600", maxText)
		r := Record{Argv: []string{emoji}, Script: emoji, Reason: emoji}
		var back Record
		if err := json.Unmarshal(r.Line(), &back); err != nil || back.Raw != nil || back.RawScript != nil ||
			!strings.HasPrefix(emoji, back.Script) || !strings.HasPrefix(emoji, back.Argv[0]) || len(back.Script) < maxText-4 {
			t.Errorf("%d: %v, raw %v %v", shift, err, back.Raw, back.RawScript)
		}
	}
	list := readLog(t, l.path)
	for i, r := range list {
		if r.Shortened != (i < 4) {
			t.Errorf("%d: shortened is %v", i, r.Shortened)
		}
	}
	if info, _ := os.Stat(l.path); info.Size() > 400<<10 {
		t.Errorf("it has %d bytes", info.Size())
	}
	if len(many) != 100_000 || len(long) != 2<<20 {
		t.Error("the caller's arguments were changed")
	}
}

// The rest of a line that a writer was killed in stays a line of its own.
func TestTornTail(t *testing.T) {
	t.Parallel()
	l := testLog(t, "")
	mustAppend(t, l, Record{PID: 1})
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"version":1,"eve`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	mustAppend(t, l, Record{PID: 2})
	if got, torn := readTorn(t, l.path); torn != 1 || len(got) != 2 || got[0].PID != 1 || got[1].PID != 2 {
		t.Errorf("%+v, %d torn", got, torn)
	}
}

// Whoever renames the file tells nobody.
func TestRenamed(t *testing.T) {
	t.Parallel()
	l := testLog(t, "")
	mustAppend(t, l, Record{PID: 1})
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, Record{PID: 2})
	if a, b := readLog(t, l.path+".1"), readLog(t, l.path); len(a) != 1 || len(b) != 1 || b[0].PID != 2 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// Fifty processes write.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "audit.jsonl")
	const writers, count = 50, 40
	var cmds []*exec.Cmd
	for i := range writers {
		cmd := writer(path, "w"+strconv.Itoa(i), "AUDIT_COUNT="+strconv.Itoa(count))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	seen := map[string]int{}
	var last time.Time
	for _, r := range readLog(t, path) {
		if r.PID != seen[r.Command] {
			t.Fatalf("%s has line %d after %d of them", r.Command, r.PID, seen[r.Command])
		}
		seen[r.Command]++
		if r.Time.Before(last) || r.Time.IsZero() {
			t.Errorf("the line of %v follows that of %v", r.Time, last)
		}
		last = r.Time
	}
	for i := range writers {
		if n := seen["w"+strconv.Itoa(i)]; n != count {
			t.Errorf("w%d wrote %d lines of %d", i, n, count)
		}
	}
}

func TestKilledWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "audit.jsonl")
	for round := range 5 {
		var cmds []*exec.Cmd
		for i := range 4 {
			cmd := writer(path, fmt.Sprintf("k%d-%d", round, i))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			cmds = append(cmds, cmd)
		}
		awaitLines(t, path, 20)
		for _, cmd := range cmds {
			cmd.Process.Kill()
			cmd.Wait()
		}
		mustAppend(t, testLog(t, path), Record{Command: "after"})
		list, torn := readTorn(t, path)
		if torn > 4*(round+1) || list[len(list)-1].Command != "after" {
			t.Errorf("%d lines are torn, and the last is %+v", torn, list[len(list)-1])
		}
	}
}

// awaitLines waits until writers have come to write.
func awaitLines(t *testing.T, path string, count int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 12_000 {
		if text, err := os.ReadFile(path); err == nil && bytes.Count(text, []byte("\n")) > count {
			return
		}
		<-tick.C
	}
	t.Fatal("nobody writes")
}

// A file that cannot grow further keeps its whole lines.
func TestFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(tempDir(t), "audit.jsonl")
	cmd := writer(path, "full", "AUDIT_FSIZE=5000")
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Fatalf("%v, %s", err, out)
	}
	if !strings.Contains(string(out), ErrUnwritable.Error()) || !strings.Contains(string(out), path) || !strings.Contains(string(out), "file too large") {
		t.Errorf("it says %q", out)
	}
	before := readLog(t, path)
	if len(before) < 5 {
		t.Errorf("%d lines", len(before))
	}
	mustAppend(t, testLog(t, path), Record{Command: "after"})
	if got := readLog(t, path); len(got) != len(before)+1 {
		t.Errorf("%d lines became %d", len(before), len(got))
	}
}

func TestNotAFile(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"link": "is a symlink", "fifo": "is not a regular file", ".": "is a directory"} {
		l := testLog(t, filepath.Join(dir, name))
		if err := l.Append(Record{}); !errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(target); !os.IsNotExist(err) {
		t.Errorf("the log was led elsewhere: %v", err)
	}
}

// A command that swaps a directory of the path for a link leads no line elsewhere.
func TestPlantedDirectory(t *testing.T) {
	t.Parallel()
	l := testLog(t, "")
	mustAppend(t, l, Record{})
	dir, outside := filepath.Dir(l.path), tempDir(t)
	if err := errors.Join(os.Rename(dir, dir+"-away"), os.Symlink(outside, dir)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{l.path, dir + "/new/audit.jsonl"} {
		if err := testLog(t, path).Append(Record{}); !errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), "is a symlink or behind one") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) != 0 {
		t.Errorf("the log was led elsewhere: %v, %v", list, err)
	}
	if list := readLog(t, dir+"-away/audit.jsonl"); len(list) != 1 {
		t.Errorf("%d lines", len(list))
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"true", "a\nb", "\x1b[31m", "\xff", "\U0001f600", `\u0022`} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, arg, script string) {
		line := Record{Argv: []string{arg}, Script: script}.Line()
		var back Record
		if err := json.Unmarshal(line, &back); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if i := bytes.IndexFunc(line, func(r rune) bool { return r < ' ' || r > '~' }); i != len(line)-1 {
			t.Errorf("%q", line)
		}
		if !back.Shortened && utf8.ValidString(arg) && back.Argv[0] != arg {
			t.Errorf("%q became %q", arg, back.Argv[0])
		}
	})
}

// A command that took no millisecond has taken a time, too.
func TestShortDuration(t *testing.T) {
	t.Parallel()
	if line := string(Record{Event: EventEnd, DurationMS: new(int64(0))}.Line()); !strings.Contains(line, `"duration_ms":0`) {
		t.Errorf("%s", line)
	}
	if line := string(Record{Event: EventDecision}.Line()); strings.Contains(line, "duration_ms") {
		t.Errorf("%s", line)
	}
}

// A line is on the disk when Append returns, once nobody waits for the lock any more.
func TestSynced(t *testing.T) {
	t.Parallel()
	l := testLog(t, "")
	failure := errors.New("the disk is gone")
	synced := 0
	l.sync = func(f *os.File) error {
		synced++
		if other, err := os.Open(f.Name()); err != nil || unix.Flock(int(other.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			t.Errorf("the lock is held while the disk is waited for (%v)", err)
		} else {
			other.Close()
		}
		return failure
	}
	if err := l.Append(Record{}); !errors.Is(err, failure) || !errors.Is(err, ErrUnwritable) || synced != 1 {
		t.Errorf("%v, synced %d times", err, synced)
	}
	failure = unix.EINVAL
	mustAppend(t, l, Record{})
	if list := readLog(t, l.path); len(list) != 2 {
		t.Errorf("%d lines", len(list))
	}
}
