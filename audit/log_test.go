package audit

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	log, err := New(Options{Path: path, MaxSize: 16 << 10, Keep: 100})
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
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		t.Errorf("%s ends in half a line", path)
	}
	var list []Record
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("%s: %q: %v", path, lines.Text(), err)
		}
		list = append(list, r)
	}
	return list
}

func testLog(t *testing.T, o Options) *Log {
	t.Helper()
	if o.Path == "" {
		o.Path = filepath.Join(t.TempDir(), "log", "audit.jsonl")
	}
	l, err := New(o)
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
	l := testLog(t, Options{})
	code := 3
	mustAppend(t, l, Record{Event: EventDecision, Command: "a", Argv: []string{"true"}, Decision: "sandboxed", Time: time.Unix(1, 0)})
	mustAppend(t, l, Record{Event: EventEnd, Command: "a", ExitCode: &code})
	list := readLog(t, l.Path())
	if len(list) != 2 || list[0].Event != EventDecision || list[1].Event != EventEnd || *list[1].ExitCode != 3 || list[0].Version != 1 {
		t.Errorf("%+v", list)
	}
	if info, err := os.Stat(l.Path()); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := (*Log)(nil).Append(Record{}); err != nil {
		t.Errorf("no log: %v", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	if l, err := New(Options{}); l != nil || err != nil {
		t.Errorf("%v, %v", l, err)
	}
	for _, o := range []Options{{Path: "relative"}, {Path: "/x", Keep: 1001}, {Path: "/x", MaxSize: 1 << 50}} {
		if l, err := New(o); l != nil || err == nil || !strings.HasPrefix(err.Error(), "audit.") {
			t.Errorf("%+v: %v, %v", o, l, err)
		}
	}
}

// No argument can end a line, hide what follows, or reach a terminal.
func TestEscaped(t *testing.T) {
	t.Parallel()
	l := testLog(t, Options{})
	for _, arg := range []string{"a\nb", "\x1b[2J", "\u202eevil", "\u009b2J", "\x7f", "tab\t", "\u2028", "😀", `quo"te\`, "\x00"} {
		mustAppend(t, l, Record{Argv: []string{arg}})
		list := readLog(t, l.Path())
		if got := list[len(list)-1].Argv[0]; got != arg {
			t.Errorf("%q is read as %q", arg, got)
		}
	}
	mustAppend(t, l, Record{Argv: []string{"ok", "\xff\x1b"}})
	list := readLog(t, l.Path())
	raw, err := base64.StdEncoding.DecodeString(list[len(list)-1].Raw[1])
	if err != nil || string(raw) != "\xff\x1b" {
		t.Errorf("%+v, %v", list[len(list)-1], err)
	}
	mustAppend(t, l, Record{Script: "\xff\u2028", Dir: "/\xfe"})
	list = readLog(t, l.Path())
	if r := list[len(list)-1]; string(r.RawScript) != "\xff\u2028" || string(r.RawDir) != "/\xfe" || list[0].RawScript != nil || list[0].RawDir != nil {
		t.Errorf("%+v", r)
	}
	text, err := os.ReadFile(l.Path())
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
	l := testLog(t, Options{})
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
		if err := json.Unmarshal(r.line(), &back); err != nil || back.Raw != nil || back.RawScript != nil ||
			!strings.HasPrefix(emoji, back.Script) || !strings.HasPrefix(emoji, back.Argv[0]) || len(back.Script) < maxText-4 {
			t.Errorf("%d: %v, raw %v %v", shift, err, back.Raw, back.RawScript)
		}
	}
	list := readLog(t, l.Path())
	for i, r := range list {
		if r.Shortened != (i < 4) {
			t.Errorf("%d: shortened is %v", i, r.Shortened)
		}
	}
	if info, _ := os.Stat(l.Path()); info.Size() > 400<<10 {
		t.Errorf("it has %d bytes", info.Size())
	}
	if len(many) != 100_000 || len(long) != 2<<20 {
		t.Error("the caller's arguments were changed")
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	l := testLog(t, Options{MaxSize: 1000, Keep: 2})
	for i := range 40 {
		mustAppend(t, l, Record{PID: i, Reason: strings.Repeat("r", 100)})
	}
	names, err := os.ReadDir(filepath.Dir(l.Path()))
	if err != nil || len(names) != 3 {
		t.Errorf("%v, %v", names, err)
	}
	next := -1
	for _, name := range []string{".2", ".1", ""} {
		info, err := os.Stat(l.Path() + name)
		if err != nil || info.Size() > 1000 {
			t.Errorf("%v, %v", info, err)
		}
		for _, r := range readLog(t, l.Path()+name) {
			if next >= 0 && r.PID != next {
				t.Errorf("%d follows %d", r.PID, next-1)
			}
			next = r.PID + 1
		}
	}
	if next != 40 {
		t.Errorf("the last is %d", next-1)
	}
	// A line that is longer than a file may be is written all the same.
	mustAppend(t, l, Record{Reason: strings.Repeat("r", 5000)})
	if got := readLog(t, l.Path()); len(got) != 1 {
		t.Errorf("%d lines", len(got))
	}
}

func TestTornTail(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]string{
		"some":      `{"version":1,"eve`,
		"all":       "",
		"very long": strings.Repeat("x", 10_000),
	} {
		l := testLog(t, Options{})
		mustAppend(t, l, Record{PID: 1})
		if name == "all" {
			if err := os.WriteFile(l.Path(), []byte(`{"ver`), 0o600); err != nil {
				t.Fatal(err)
			}
		} else {
			f, err := os.OpenFile(l.Path(), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(torn); err != nil {
				t.Fatal(err)
			}
			f.Close()
		}
		mustAppend(t, l, Record{PID: 2})
		got := readLog(t, l.Path())
		if got[len(got)-1].PID != 2 || name != "all" && (len(got) != 2 || got[0].PID != 1) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// Fifty processes write, and rotate; then some are killed, and the rest of
// the log is whole.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
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
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	// The highest number is the oldest.
	number := func(f string) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(strings.TrimPrefix(f, path), "."))
		return n
	}
	slices.SortFunc(files, func(a, b string) int { return number(b) - number(a) })
	for _, file := range files {
		for _, r := range readLog(t, file) {
			if r.PID != seen[r.Command] {
				t.Fatalf("%s: %s has line %d after %d of them", file, r.Command, r.PID, seen[r.Command])
			}
			seen[r.Command]++
			if r.Time.Before(last) || r.Time.IsZero() {
				t.Errorf("%s: the line of %v follows that of %v", file, r.Time, last)
			}
			last = r.Time
		}
	}
	for i := range writers {
		if n := seen["w"+strconv.Itoa(i)]; n != count {
			t.Errorf("w%d wrote %d lines of %d", i, n, count)
		}
	}
}

func TestKilledWriters(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
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
		mustAppend(t, testLog(t, Options{Path: path}), Record{Command: "after"})
		files, _ := filepath.Glob(path + "*")
		for _, file := range files {
			readLog(t, file)
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
	path := filepath.Join(t.TempDir(), "audit.jsonl")
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
	mustAppend(t, testLog(t, Options{Path: path}), Record{Command: "after"})
	if got := readLog(t, path); len(got) != len(before)+1 {
		t.Errorf("%d lines became %d", len(before), len(got))
	}
}

func TestNotAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"link": "is a symlink", "fifo": "is not a regular file", ".": "is a directory"} {
		l := testLog(t, Options{Path: filepath.Join(dir, name)})
		if err := l.Append(Record{}); !errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(target); !os.IsNotExist(err) {
		t.Errorf("the log was led elsewhere: %v", err)
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range []string{"true", "a\nb", "\x1b[31m", "\xff", "\U0001f600", `\u0022`} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, arg, script string) {
		line := Record{Argv: []string{arg}, Script: script}.line()
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
	if line := string(Record{Event: EventEnd, DurationMS: new(int64(0))}.line()); !strings.Contains(line, `"duration_ms":0`) {
		t.Errorf("%s", line)
	}
	if line := string(Record{Event: EventDecision}.line()); strings.Contains(line, "duration_ms") {
		t.Errorf("%s", line)
	}
}

// A line is on the disk when Append returns, once nobody waits for the lock any more.
func TestSynced(t *testing.T) {
	t.Parallel()
	l := testLog(t, Options{})
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
	if list := readLog(t, l.Path()); len(list) != 2 {
		t.Errorf("%d lines", len(list))
	}
	if none := testLog(t, Options{NoSync: true}); none.sync(nil) != nil {
		t.Error("it is synced all the same")
	}
}
