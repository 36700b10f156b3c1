package test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	programsIn   = flag.String("programs", "", "run test/corpus/programs.txt in this engine, and outside, and print what differs")
	programsOnly = flag.String("programs.only", "", "of these, the named ones alone, with commas")
)

// A realProgram is one of test/corpus/programs.txt.
type realProgram struct {
	name     string
	packages []string
	script   string
}

func readPrograms(t *testing.T) (list []realProgram) {
	text, err := os.ReadFile("corpus/programs.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n=== ")
	for part := range strings.SplitSeq(rest, "\n=== ") {
		head, script, _ := strings.Cut(part, "\n")
		name, packages, ok := strings.Cut(head, ": ")
		if !ok || script == "" {
			t.Fatalf("no name, no packages or no script: %q", part)
		}
		list = append(list, realProgram{name, strings.Fields(packages), script})
	}
	return list
}

// missing gives the packages that are not installed.
func (p realProgram) missing() (list []string) {
	for _, name := range p.packages {
		if out, _ := exec.Command("dpkg-query", "-W", "-f", "${db:Status-Status}", name).Output(); string(out) != "installed" {
			list = append(list, name)
		}
	}
	return list
}

// A programResult is what a script printed, and the files that it left.
type programResult struct {
	status         int
	stdout, stderr string
	files          map[string]programFile
}

type programFile struct {
	mode    fs.FileMode
	content string
}

// runProgram runs a script in a new workspace and with a new home directory. What base was used for before
// is gone.
func runProgram(t *testing.T, base string, env []string, args ...string) (r programResult) {
	t.Helper()
	w, home, tmp := base+"/w", base+"/home", base+"/tmp"
	exec.Command("chmod", "-R", "u+rwX", w, home).Run() // of Go's module cache nothing can be removed
	for _, dir := range []string{w, home, tmp} {
		if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = w, append(env, "HOME="+home, "TMPDIR="+tmp), &stdout, &stderr, 5*time.Second
	err := cmd.Run()
	if r.status = cmd.ProcessState.ExitCode(); r.status == 0 && err != nil {
		r.status = -1
	}
	r.stdout, r.stderr, r.files = stdout.String(), stderr.String(), map[string]programFile{}
	err = filepath.WalkDir(w, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == w {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		f := programFile{mode: info.Mode()}
		switch info.Mode().Type() {
		case fs.ModeSymlink:
			f.content, err = os.Readlink(p)
		case 0:
			var data []byte
			data, err = os.ReadFile(p)
			f.content = fmt.Sprintf("%x", sha256.Sum256(data))
		}
		r.files[strings.TrimPrefix(p, w+"/")] = f
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return r
}

// differences says how a result inside is not that of two runs outside.
func differences(before, inside, after programResult) (list []string) {
	if inside.status != before.status {
		list = append(list, fmt.Sprintf("status %d", inside.status))
	}
	if inside.stdout != before.stdout {
		list = append(list, fmt.Sprintf("prints %q, outside %q", inside.stdout, before.stdout))
	}
	names := maps.Clone(before.files)
	maps.Copy(names, inside.files)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		one, known := before.files[name]
		other, again := after.files[name]
		of, ok := inside.files[name]
		switch {
		case known != again:
		case ok != known:
			list = append(list, fmt.Sprintf("%s: there inside: %v, outside: %v", name, ok, known))
		case one == other && of != one, of.mode != one.mode:
			list = append(list, fmt.Sprintf("%s: %v %.8s, outside %v %.8s", name, of.mode, of.content, one.mode, one.content))
		}
	}
	return list
}

// TestPrograms runs, with -programs, real programs inside and outside, and prints how many do the same. One
// that is not installed counts as one that does not.
func TestPrograms(t *testing.T) {
	list := readPrograms(t)
	if len(list) != 60 {
		t.Errorf("%d programs", len(list))
	}
	if *programsIn == "" {
		return
	}
	base, err := os.MkdirTemp("/tmp", "p") // a short name: the path of a socket has 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("chmod", "-R", "u+rwX", base).Run()
		os.RemoveAll(base)
	})
	bin := base + "/bin"
	build(t, bin, append(engineBinaries[:], "cmd/sbxhost")...)
	if err := os.WriteFile(base+"/config.hcl", fmt.Appendf(nil, "sandbox \"s\" {\n  engine = %q\n  config {\n    ptrace = true\n  }\n}\n", *programsIn), 0o644); err != nil {
		t.Fatal(err)
	}
	path := "PATH=/usr/bin:/bin:/usr/sbin:/sbin:/usr/games"
	if tool, err := exec.LookPath("go"); err == nil {
		path += ":" + filepath.Dir(tool)
	}
	env := []string{path, "LANG=C.UTF-8", "TERM=xterm", "SOURCE_DATE_EPOCH=1700000000", "GOTOOLCHAIN=local"}
	sbxhost := []string{bin + "/sbxhost", "exec", "-config", base + "/config.hcl", "-sandbox", "s", "--"}
	set := append(slices.Clone(env), "XDG_STATE_HOME="+base+"/state", "XDG_CACHE_HOME="+base+"/cache", "SBX_SERVE=off")
	same, absent := 0, 0
	for _, p := range list {
		if *programsOnly != "" && !slices.Contains(strings.Split(*programsOnly, ","), p.name) {
			continue
		}
		script := []string{"env", "SOURCE_DATE_EPOCH=1700000000", "GOTOOLCHAIN=local", "TERM=xterm", "sh", "-ec", p.script}
		start := time.Now()
		before := runProgram(t, base, env, script...)
		middle := time.Now()
		inside := runProgram(t, base, set, append(slices.Clone(sbxhost), script...)...)
		end := time.Now()
		after := before
		if before.status != 0 || len(differences(before, inside, before)) > 0 {
			after = runProgram(t, base, env, script...)
		}
		took := fmt.Sprintf("%.1f s outside, %.1f s inside", middle.Sub(start).Seconds(), end.Sub(middle).Seconds())
		if before.status != 0 || before.stdout != after.stdout {
			missing := p.missing()
			if len(missing) > 0 {
				absent++
			}
			fmt.Printf("FAILS OUTSIDE %s: status %d, not installed: %v\n%s\n%s\n%s\n", p.name, before.status, missing, before.stdout, before.stderr, after.stdout)
		} else if list := differences(before, inside, after); len(list) > 0 {
			fmt.Printf("DIFFERENT %s: %s\n  %s\n%s\n", p.name, took, strings.Join(list[:min(len(list), 20)], "\n  "), inside.stderr)
		} else {
			same++
			fmt.Printf("same %s: %s, %d files\n", p.name, took, len(inside.files))
		}
	}
	fmt.Printf("%s, uid %d: %d of %d are the same, %d are not installed\n", *programsIn, os.Getuid(), same, len(list), absent)
	if *programsOnly == "" && same < 57 {
		t.Errorf("%d of %d", same, len(list))
	}
}

// A user that /etc/passwd does not have is known inside by a name.
func TestAccountsElsewhere(t *testing.T) {
	t.Parallel()
	need(t, "bwrap", "getent")
	bin := t.TempDir()
	build(t, bin, append(engineBinaries[:], "cmd/sbxhost")...)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := os.Getuid(), os.Getgid()
	write := func(name, text string) error { return os.WriteFile(filepath.Join(base, name), []byte(text), 0o644) }
	err = errors.Join(os.Chmod(filepath.Dir(bin), 0o755), os.Chmod(bin, 0o755), os.Chmod(filepath.Dir(base), 0o755), os.Chmod(base, 0o755), os.Mkdir(base+"/w", 0o755), os.Mkdir(base+"/home", 0o755),
		write("passwd", "nobody:x:65534:65534::/:/bin/false\nshort:x:"+fmt.Sprint(uid)),
		write("config.hcl", "default_sandbox = \"native\"\nsandbox \"native\" {\n  engine = \"native\"\n}\nsandbox \"bwrap\" {\n  engine = \"bwrap\"\n}\nsandbox \"host\" {\n  engine     = \"native\"\n  filesystem = \"host\"\n}\n"))
	if err != nil {
		t.Fatal(err)
	}
	run := func(user, script string) string {
		cmd := exec.Command("bwrap", "--dev-bind", "/", "/", "--tmpfs", "/var/cache", "--ro-bind", base+"/passwd", "/etc/passwd", "--die-with-parent", "--chdir", base+"/w", "sh", "-c", script)
		cmd.Env = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + base + "/home", "USER=" + user, "XDG_STATE_HOME=" + base + "/state", "XDG_CACHE_HOME=" + base + "/cache", "TMPDIR=/tmp", "LC_ALL=C", "B=" + base}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return string(out)
	}
	line := fmt.Sprintf("jo:x:%d:%d::%s/home:/bin/sh\n", uid, gid, base)
	for _, sandbox := range []string{"native", "bwrap", "host"} {
		if got, want := run("jo", `sbxhost exec -quiet -config $B/config.hcl -sandbox `+sandbox+` -- sh -c 'whoami; getent passwd $(id -u)'`), "jo\n"+line; got != want {
			t.Errorf("%s: %q, want %q", sandbox, got, want)
		}
	}
	if got := run("jo:x:0:0", `sbxhost exec -quiet -config $B/config.hcl -- cat /etc/passwd`); strings.Contains(got, "jo") {
		t.Errorf("a name that is a line: %q", got)
	}
	if _, err := exec.LookPath("ssh"); err == nil {
		if got := run("jo", `sbxhost exec -quiet -config $B/config.hcl -- ssh -o BatchMode=yes nowhere.invalid 2>&1 || true`); !strings.Contains(got, "resolve") || strings.Contains(got, "No user exists") {
			t.Errorf("ssh: %q", got)
		}
	}
	// What the definition shows there stays.
	if got := run("jo", `echo "me:x:1:1::/:/bin/sh" >$B/own; sed "s,engine = \"bwrap\",engine = \"native\"\nbind_paths = [{ host = \"$B/own\"\, container = \"/etc/passwd\" }]," $B/config.hcl >$B/bound.hcl
		sbxhost exec -quiet -config $B/bound.hcl -sandbox bwrap -- cat /etc/passwd`); got != "me:x:1:1::/:/bin/sh\n" {
		t.Errorf("a bind: %q", got)
	}
}

// Of what packages keep in /etc and /var, commands see what programs do not run without, and nothing in
// which an administrator keeps a password: on a machine that has both.
func TestSettingsOfPackages(t *testing.T) {
	t.Parallel()
	need(t, "bwrap")
	bin := t.TempDir()
	build(t, bin, append(engineBinaries[:], "cmd/sbxhost")...)
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(filepath.Dir(bin), 0o755), os.Chmod(bin, 0o755), os.Mkdir(base+"/w", 0o755)); err != nil {
		t.Fatal(err)
	}
	shown := []string{
		"etc/passwd", "etc/texmf/web2c/texmf.cnf", "etc/xml/catalog", "etc/sgml/catalog", "etc/R/ldpaths", "etc/chromium.d/default-flags", "etc/dpkg/origins/debian", "etc/odbcinst.ini",
		"etc/php/8.2/mods-available/curl.ini", "etc/php/8.2/cli/conf.d/20-xml.ini",
		"var/lib/texmf/ls-R", "var/lib/aspell/en.rws", "var/lib/sgml-base/supercatalog", "var/lib/dpkg/status", "var/lib/gems/3.1.0/specifications/x.gemspec",
	}
	hidden := []string{
		"etc/odbc.ini", "etc/environment", "etc/wgetrc", "etc/R/Renviron.site", "etc/chromium.d/apikeys", "etc/apt/auth.conf", "etc/apt/sources.list",
		"etc/php/8.2/mods-available/newrelic.ini", "etc/php/8.2/cli/conf.d/99-local.ini", "etc/php/8.2/cli/php.ini", "etc/php/8.2/fpm/pool.d/www.conf",
		"var/lib/app/token", "var/lib/apt/lists/private.example.com_Release",
	}
	for _, name := range append(shown, hidden...) {
		file := filepath.Join(base, name)
		text := []byte("content of " + name + "\n")
		if name == "etc/passwd" {
			text = fmt.Appendf(nil, "me:x:%d:%d::%s:/bin/sh\n", os.Getuid(), os.Getgid(), base)
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	config := "default_sandbox = \"native\"\n"
	for _, engine := range []string{"native", "bwrap", "landlock"} {
		config += fmt.Sprintf("sandbox %q {\n  engine    = %q\n  isolation = \"best_effort\"\n}\n", engine, engine)
	}
	if err := errors.Join(os.WriteFile(base+"/config.hcl", []byte(config), 0o644), os.Symlink("/etc/php/8.2/mods-available/newrelic.ini", base+"/etc/php/8.2/cli/conf.d/20-newrelic.ini")); err != nil {
		t.Fatal(err)
	}
	hidden = append(hidden, "etc/php/8.2/cli/conf.d/20-newrelic.ini")
	for _, engine := range []string{"native", "bwrap", "landlock"} {
		cmd := exec.Command("bwrap", "--dev-bind", "/", "/", "--ro-bind", base+"/etc", "/etc", "--ro-bind", base+"/var/lib", "/var/lib", "--die-with-parent", "--chdir", base+"/w",
			"sbxhost", "exec", "-quiet", "-config", base+"/config.hcl", "-sandbox", engine, "--", "sh", "-c", `for f; do cat "/$f" >/dev/null 2>&1 && echo "$f"; done; true`, "sh")
		cmd.Args = append(append(cmd.Args, shown...), hidden...)
		cmd.Env = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + base, "XDG_STATE_HOME=" + base + "/state", "XDG_CACHE_HOME=" + base + "/cache", "TMPDIR=/tmp", "LC_ALL=C"}
		cmd.Dir = base
		out, err := cmd.CombinedOutput()
		if got, want := string(out), strings.Join(shown, "\n")+"\n"; err != nil || got != want {
			t.Errorf("%s: %v: %q, want %q", engine, err, got, want)
		}
	}
}
