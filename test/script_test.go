package test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sbxhost/sbxhost/internal/stubs"
	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// engineBinaries are the lean executables that may stand beside sbxhost.
var engineBinaries = [...]string{
	"plugins/native/sbxhost-engine-native", "plugins/bwrap/sbxhost-engine-bwrap", "plugins/landlock/sbxhost-engine-landlock", "plugins/noop/sbxhost-engine-noop", "plugins/seatbelt/sbxhost-engine-seatbelt",
	"cmd/sbxhost-init",
}

// layoutScripts are those of what differs from layout to layout: what is started, and how
// it ends.
var layoutScripts = []string{"script/exec.txtar", "script/kept.txtar", "script/sessions.txtar", "script/signals.txtar"}

// notServed has the scripts that are not for the layout served, and why.
var notServed = map[string]string{
	"script/mounted_again.txtar": "its sbxhost lies in the workspace, alone, in a mount namespace of its own: no server is asked there",
}

// TestMain undoes what a shell does to commands in its background, which ignore SIGINT and
// have all that they start ignore it.
func TestMain(m *testing.M) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		os.Exit(2)
	}()
	status := m.Run()
	programs.Remove()
	// Root keeps directories there for a user whose commands it has run, and these tests alone
	// run any as that one. A process that such a test has started leaves them to the first.
	if os.Getenv("SBXHOST_TEST_NETWORK") == "" {
		owner := strconv.Itoa(ownerUID)
		os.Remove("/var/cache/sbxhost/" + owner)
		os.RemoveAll("/var/cache/sbxhost/git/" + owner)
		os.Remove("/var/cache/sbxhost/git") // unless somebody else uses it
	}
	os.Exit(status)
}

// ownerUID has no entry in passwd, and owns workspaces for which root runs commands.
const ownerUID = 54321

// TestScript runs the scripts against the built program, in both ways in which
// it can be installed: `lean`, with its engines' own executables beside it; and
// `single`, sbxhost alone, which starts itself as engine and as init; and `served`, where
// sbx is in the place of `sbxhost exec`, with a server. Of the last two a short run tries
// the layoutScripts.
func TestScript(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the scripts run commands in bubblewrap")
	}
	requireBwrap(t)
	t.Parallel()

	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	served, single := filepath.Join(bin, "served"), filepath.Join(bin, "single")
	lean := filepath.Join(served, "lean")
	build(t, lean, append(engineBinaries[:], "cmd/sbxhost")...)
	if err := os.Mkdir(single, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(lean, "sbxhost"), filepath.Join(single, "sbxhost")); err != nil {
		t.Fatal(err)
	}
	build(t, filepath.Join(bin, "other"), "docs/examples/sbxhost-engine-nice")
	layOutServed(t, served, lean)
	all, err := filepath.Glob("script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, layout := range []string{lean, single, served} {
		t.Run(filepath.Base(layout), func(t *testing.T) {
			t.Parallel() // or each layout waits for the longest script of the one before
			deadline, _ := t.Deadline()
			files := slices.Clone(all)
			if testing.Short() && layout != lean {
				files = layoutScripts
			} else if layout == served {
				files = slices.DeleteFunc(files, func(file string) bool { return notServed[file] != "" })
			}
			testscript.Run(t, testscript.Params{
				Files:               files,
				RequireExplicitExec: true,
				RequireUniqueNames:  true,
				Deadline:            deadline,
				Setup: func(env *testscript.Env) error {
					env.Setenv("NICE", filepath.Join(bin, "other", "sbxhost-engine-nice"))
					err := setupScript(env, top, layout)
					if err == nil && layout == served {
						err = startServer(env, lean)
					}
					return err
				},
				Condition: func(name string) (bool, error) {
					// [WORD] holds where SBXHOST_REQUIRE lists the word.
					return name == "root" && os.Geteuid() == 0 || name == filepath.Base(layout) || required(name), nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits":    exits,
					"timesout": timesOut,
					"lines":    lines,
					"await":    await,
					"listen":   listen,
					"settled":  settled(layout == served),
				},
			})
		})
	}
}

// layOutServed makes a directory, around that of lean, whose sbxhost is sbx where it is told to exec:
// a sandbox that shows it shows the programs, too.
func layOutServed(t *testing.T, dir, lean string) {
	t.Helper()
	build(t, lean, "cmd/sbx")
	// Not sh, which may need a descriptor for the script that one about shortage denies it.
	if err := programs.Write(filepath.Join(dir, "sbxhost"), []byte(`#!/bin/bash
if [ "$1" = exec ]; then
	shift
	exec `+lean+`/sbx "$@"
fi
exec `+lean+`/sbxhost "$@"
`)); err != nil {
		t.Fatal(err)
	}
}

// startServer has a server for one script.
func startServer(env *testscript.Env, lean string) error {
	run := filepath.Join(env.WorkDir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(lean, "sbxhost"), "serve")
	cmd.Env = env.Vars
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	env.Defer(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	})
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "sbxhost: serving ") {
		err = errors.New(line)
	}
	return err
}

func requireBwrap(t testing.TB) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/bwrap"); err != nil {
		if required("bwrap") {
			t.Fatalf("SBXHOST_REQUIRE lists bwrap: %v", err)
		}
		t.Skip("no bubblewrap here")
	}
}

// required reports whether the environment says that a part of the machine must
// be there, so that its absence is a failure and not a reason to skip.
func required(part string) bool {
	return slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), part)
}

// build puts programs into dir.
func build(t testing.TB, dir string, packages ...string) {
	t.Helper()
	if err := programs.Copy(dir, packages...); err != nil {
		t.Fatal(err)
	}
}

// setupScript makes the world of one script: a home of its own, and the
// directory in which it starts, which is the workspace.
func setupScript(env *testscript.Env, top, layout string) error {
	home := filepath.Join(env.WorkDir, "home")
	env.Cd = filepath.Join(env.WorkDir, "project")
	for _, dir := range []string{home, env.Cd} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if info, err := os.Stat(filepath.Join(top, "test", "script")); err != nil || !info.IsDir() {
		return errors.New("the scripts are not where they should be")
	}
	env.Setenv("HOME", home)
	env.Setenv("TOP", top)
	goEnv, err := exec.Command("go", "env", "-json", "GOMODCACHE", "GOCACHE", "GOPROXY", "GOFLAGS", "CGO_ENABLED").Output()
	if err != nil {
		return err
	}
	var goVars map[string]string
	if err := json.Unmarshal(goEnv, &goVars); err != nil {
		return err
	}
	for name, value := range goVars {
		env.Setenv(name, value)
	}
	// Of an engine in Python a machine that is busy makes a matter of seconds.
	env.Setenv("SBXHOST_START_TIMEOUT", "1m")
	// Sockets live there, and a socket's path has a hundred bytes.
	env.Setenv("TMPDIR", "/tmp")
	env.Setenv("XDG_RUNTIME_DIR", filepath.Join(env.WorkDir, "run")) // below /tmp, where no server is started
	goTool, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	env.Setenv("PATH", layout+":"+filepath.Dir(goTool)+":/usr/local/bin:/usr/bin:/bin")
	env.Setenv("LAYOUT", filepath.Base(layout))
	env.Setenv("C", filepath.Join(env.WorkDir, "sandbox.hcl"))
	return os.WriteFile(filepath.Join(env.WorkDir, "sandbox.hcl"), []byte(`# What the scripts use unless they bring their own.
sandbox "fast" {
  engine = "native"
}

sandbox "online" {
  engine  = "native"
  network = true
}

sandbox "open" {
  engine  = "noop"
  network = true
}
`), 0o644)
}

// exits is exec for a program that must exit with the status that comes first.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS PROGRAM [ARGUMENT...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		if got = exit.ExitCode(); got < 0 {
			ts.Fatalf("%v", err)
		}
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// timesOut is exits 124 for a command whose time limit is LIMIT, as a word or in the environment.
// On a busy machine that is over before the command has begun: then it is tried with more.
func timesOut(ts *testscript.TestScript, neg bool, args []string) {
	for limit := 2 * time.Second; ; limit *= 4 {
		ts.Setenv("LIMIT", limit.String())
		words := []string{"124"}
		for _, arg := range args {
			words = append(words, strings.ReplaceAll(arg, "LIMIT", limit.String()))
		}
		exits(ts, neg, words)
		if !regexp.MustCompile("before the command ran|may have run").MatchString(ts.ReadFile("stderr")) || limit > time.Minute {
			return
		}
	}
}

// lines checks how many lines a file, stdout or stderr has.
func lines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines COUNT FILE")
	}
	if got := strings.Count(ts.ReadFile(args[1]), "\n"); strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s has %d lines, want %s", args[1], got, args[0])
	}
}

// listen makes a socket that accepts connections until the script ends.
func listen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: listen SOCKET")
	}
	l, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
}

// await waits until a file is there, or with ! until it is gone.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: [!] await FILE")
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 6000 {
		if _, err := os.Stat(ts.MkAbs(args[0])); (err == nil) != neg {
			return
		}
		<-tick.C
	}
	if neg {
		ts.Fatalf("%s stays", args[0])
	}
	ts.Fatalf("%s did not come to be", args[0])
}

// settled waits, where a server runs the commands, until there are no stubs: it keeps them for a
// moment, for the next command. Elsewhere they are gone with their command, and it does nothing.
func settled(served bool) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) > 0 {
			ts.Fatalf("usage: settled")
		}
		stub := ""
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range 6000 {
			if stub = ""; served {
				filepath.WalkDir(ts.Getenv("WORK"), func(path string, _ fs.DirEntry, err error) error {
					if err == nil && stubs.Is(path) {
						stub = path
						return filepath.SkipAll
					}
					return nil // what is gone by now
				})
			}
			if stub == "" {
				return
			}
			<-tick.C
		}
		ts.Fatalf("%s stays", stub)
	}
}
