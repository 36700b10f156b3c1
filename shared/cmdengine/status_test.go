//go:build linux

package cmdengine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestExitStatus(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		sb := open(t, config(mode), specFor(mode))
		for script, want := range map[string]shared.ExitStatus{
			"exit 0":                     {},
			"exit 3":                     {Code: 3},
			"exit 126":                   {Code: 126},
			"exit 127":                   {Code: 127},
			"exit 143":                   {Code: 143},
			"exit 255":                   {Code: 255},
			"kill -TERM $$":              {Signal: syscall.SIGTERM},
			"kill -KILL $$":              {Signal: syscall.SIGKILL},
			"kill -PIPE $$":              {Signal: syscall.SIGPIPE},
			"ulimit -c 0; kill -QUIT $$": {Signal: syscall.SIGQUIT},
		} {
			t.Run(script, func(t *testing.T) {
				t.Parallel()
				_, result := run(t, sb, sh(script))
				// Where cores go to a handler, the kernel counts them in spite of the limit.
				result.Status.CoreDumped = false
				if result.Status != want || result.TimedOut || result.Duration <= 0 {
					t.Errorf("got %+v, want %+v", result, want)
				}
			})
		}
	})
}

func TestNotStarted(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		dir := t.TempDir()
		write := func(name, text string, perm os.FileMode) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), perm); err != nil {
				t.Fatal(err)
			}
			return path
		}
		plain := write("plain", "x", 0o644)
		shebang := write("shebang", "#!/nonexistent/interpreter\n", 0o755)
		garbage := write("garbage", "\x00\x01\x02", 0o755)
		write("tool", "#!/bin/sh\n", 0o755)
		sb := open(t, config(mode), specFor(mode))
		for name, test := range map[string]struct {
			args, env []string
			dir       string
			kind      error
			words     string
		}{
			"not in PATH":         {args: []string{"no-such-command"}, kind: shared.ErrNotFound, words: `"no-such-command": command not found in the`},
			"relative PATH":       {args: []string{"tool"}, env: []string{"PATH=.:"}, dir: dir, kind: shared.ErrNotFound},
			"no PATH":             {args: []string{"sh"}, env: []string{}, kind: shared.ErrNotFound},
			"absolute":            {args: []string{"/no/such/command"}, kind: shared.ErrNotFound, words: "/no/such/command"},
			"relative":            {args: []string{"./none"}, dir: dir, kind: shared.ErrNotFound},
			"below a file":        {args: []string{plain + "/x"}, kind: shared.ErrNotFound},
			"not executable":      {args: []string{plain}, kind: shared.ErrNotExecutable, words: plain},
			"not executable PATH": {args: []string{"plain"}, env: []string{"PATH=" + dir}, kind: shared.ErrNotExecutable, words: plain},
			"a directory":         {args: []string{dir}, kind: shared.ErrNotExecutable, words: dir},
			"no interpreter":      {args: []string{shebang}, kind: shared.ErrNotFound, words: "interpreter"},
			"no program":          {args: []string{garbage}, kind: shared.ErrNotExecutable, words: garbage},
			"no directory":        {args: []string{"true"}, dir: "/no/such/dir", kind: shared.ErrInvalidSpec, words: `dir: "/no/such/dir"`},
			"directory is a file": {args: []string{"true"}, dir: plain, kind: shared.ErrInvalidSpec, words: "dir: "},
			"too long":            {args: []string{"true", strings.Repeat("x", 200<<10)}, kind: shared.ErrInvalidSpec, words: "args: "},
			"empty name":          {args: []string{""}, kind: shared.ErrNotFound},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				cmd := shared.Command{Args: test.args, Env: stdEnv, Dir: "/"}
				if test.env != nil {
					cmd.Env = test.env
				}
				if test.dir != "" {
					cmd.Dir = test.dir
				}
				o := newOutput(t)
				p, err := sb.Start(t.Context(), cmd, shared.Stdio{Stdout: o.w, Stderr: o.w})
				if err == nil {
					result, waitErr := p.Wait(t.Context())
					t.Fatalf("started: %+v, %v", result, waitErr)
				}
				wantError(t, err, test.kind, test.words)
				if got := o.rest(); got != "" {
					t.Errorf("wrote %q", got)
				}
			})
		}
	})
}

func TestCommandIsExact(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		dir := t.TempDir()
		if err := os.Symlink("/usr/bin/env", filepath.Join(dir, "tool")); err != nil {
			t.Fatal(err)
		}
		sb := open(t, config(mode), specFor(mode))
		env := []string{"B=2", "A=a b\nc", "EMPTY="}
		got, _ := run(t, sb, shared.Command{Args: []string{"/usr/bin/env", "-0"}, Env: env, Dir: "/"})
		if want := strings.Join(env, "\x00") + "\x00"; got != want {
			t.Errorf("environment %q, want %q", got, want)
		}
		if got, _ := run(t, sb, shared.Command{Args: []string{"/usr/bin/env"}, Dir: "/"}); got != "" {
			t.Errorf("no environment became %q", got)
		}
		got, _ = run(t, sb, shared.Command{Args: []string{"./tool", "pwd"}, Env: stdEnv, Dir: dir})
		if got != dir+"\n" {
			t.Errorf("directory %q, want %q", got, dir)
		}
		got, _ = run(t, sb, shared.Command{Args: []string{"ls", "/proc/self/fd"}, Env: stdEnv, Dir: "/"})
		if want := "0\n1\n2\n3\n"; got != want { // 3 is the directory that ls reads
			t.Errorf("descriptors %q, want %q", got, want)
		}
		got, _ = run(t, sb, sh("cat; readlink /proc/self/fd/0"))
		if got != "/dev/null\n" {
			t.Errorf("stdin is %q", got)
		}
	})
}

func TestScript(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		sb := open(t, config(mode), specFor(mode))
		short := "printf '%s\\n' \"$0:$1:$2\" $LINENO\nls /proc/self/fd | tr '\\n' ' '\ncat\n"
		long := short + "#" + strings.Repeat("padding ", 25_000) + "\nexit 9\n"
		for name, script := range map[string]string{"short": short + "exit 9", "long": long} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				got, result := run(t, sb, shared.Command{
					Script: script, Args: []string{"a b", "c"}, Env: stdEnv, Dir: "/",
				})
				lines := strings.Fields(got)
				if !strings.HasPrefix(got, "bash:a b:c\n") || result.Status.Code != 9 {
					t.Fatalf("got %q, %v", got, result.Status)
				}
				// ls's own descriptors, and none of the script's.
				if fds := lines[3:]; !slices.Equal(fds, []string{"0", "1", "2", "3"}) {
					t.Errorf("descriptors %v in %q", fds, got)
				}
			})
		}
	})
}

func TestScriptNeedsRoomForItsDescriptor(t *testing.T) {
	t.Parallel()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := withScript(make([]*os.File, 7), f); !errors.Is(err, shared.ErrUnsupported) {
		t.Errorf("seven files: %v", err)
	}
	files, err := withScript(make([]*os.File, 2), f)
	if err != nil || len(files) != 7 || files[6] != f {
		t.Errorf("two files: %v, %v", files, err)
	}
}

func TestConcurrent(t *testing.T) {
	eachMode(t, func(t *testing.T, mode string) {
		sb := open(t, config(mode), specFor(mode))
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				p, err := sb.Start(context.Background(), sh("exit $1", string(rune('0'+i%10))), shared.Stdio{})
				if err != nil {
					t.Error(err)
					return
				}
				result, err := p.Wait(context.Background())
				again, errAgain := p.Wait(context.Background())
				if err != nil || result.Status.Code != i%10 || !reflect.DeepEqual(result, again) || errAgain != nil {
					t.Errorf("%d: %+v, %v; again %+v, %v", i, result, err, again, errAgain)
				}
				if err := p.Signal(context.Background(), syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
					t.Errorf("signal after the end: %v", err)
				}
			})
		}
		wg.Wait()
	})
}
