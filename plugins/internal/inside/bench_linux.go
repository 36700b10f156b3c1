package inside

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
)

// A Bench runs one command after another in a sandbox with Prepare, and knows which init waits for
// the next one.
type Bench struct {
	T       testing.TB
	Sandbox shared.Sandbox
	Dir     string
	Inits   func() []int // the current ones of this sandbox
	Waits   int          // the one that waits for a command, after Run
}

// Start starts a shell script, which begins when end is called; end returns its output. by are the
// inits meanwhile: the command's, and one that was dismissed for it.
func (b *Bench) Start(script string) (by []int, end func() string) {
	b.T.Helper()
	in, begin := Pipe(b.T)
	out, w := Pipe(b.T)
	p, err := b.Sandbox.Start(b.T.Context(), shared.Command{Args: []string{"/bin/sh", "-c", "read _; " + script}, Dir: b.Dir, Env: append([]string{"HOME=/home/u"}, Env...)},
		shared.Stdio{Stdin: in, Stdout: w, Stderr: w})
	in.Close()
	w.Close()
	if err != nil {
		b.T.Fatal(err)
	}
	return b.Inits(), func() string {
		b.T.Helper()
		fmt.Fprintln(begin)
		text, err := io.ReadAll(out)
		if err != nil {
			b.T.Fatal(err)
		}
		if _, err := p.Wait(b.T.Context()); err != nil {
			b.T.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
}

// Next waits until only another init than those of a command exists, with a thread that is ready to
// start a command: with no_new_privs.
func (b *Bench) Next(by []int) {
	b.T.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if is := b.Inits(); len(is) == 1 && !slices.Contains(by, is[0]) && confined(is[0]) {
			b.Waits = is[0]
			return
		}
		if time.Now().After(deadline) {
			b.T.Fatalf("the inits are %v, want one more that waits for a command, after %v", b.Inits(), by)
		}
	}
}

// Run runs a script, and waits for the init of the next one.
func (b *Bench) Run(script string) string {
	b.T.Helper()
	by, end := b.Start(script)
	out := end()
	b.Next(by)
	return out
}

// RunPrepared is Run. It fails if another init than the waiting one runs the script.
func (b *Bench) RunPrepared(script string) string {
	b.T.Helper()
	waited := b.Waits
	by, end := b.Start(script)
	if !slices.Equal(by, []int{waited}) {
		b.T.Errorf("the inits are %v, and %d had waited for the command", by, waited)
	}
	out := end()
	b.Next(by)
	return out
}

// confined reports whether a thread of a process has no_new_privs.
func confined(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid)) // the pattern is valid
	return slices.ContainsFunc(threads, func(thread string) bool {
		status, _ := os.ReadFile(thread) // the thread may have ended
		return strings.Contains(string(status), "\nNoNewPrivs:\t1\n")
	})
}
