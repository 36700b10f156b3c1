package test

import (
	"bufio"
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The server runs the command of who has its identity, and nobody else's.
func TestServeWhom(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	for _, c := range []struct {
		name, before string
		args         []string
		served       bool
	}{
		{"plainly", "", nil, true},
		{"again", "", nil, true},
		{"another umask", "umask 0027", nil, true},
		{"another limit", "ulimit -c 0; ulimit -f 123456", nil, true},
		{"another limit of open files", "ulimit -n 500", nil, false},
		{"without a server's directory", "unset XDG_RUNTIME_DIR; export SBX_SERVE=off", nil, false},
		{"another variable", "export STEP=2; cd ..; cd project", nil, true},
		{"another directory", "mkdir -p sub; cd sub", nil, true},
		{"another time limit", "", []string{"-timeout", "55s"}, true},
		{"an audit log", "export SBXHOST_AUDIT=" + s.dir + "/home/audit.log", nil, true},
		{"it could be confined", "exec setpriv --no-new-privs \"$0\" \"$@\"", nil, false},
		{"SBX_SERVE=off", "export SBX_SERVE=off", nil, false},
		{"a session", "", []string{"-session", "x"}, true},
	} {
		served := false
		for try := 0; try == 0 || try < 20 && c.served && !served; try++ { // see begun
			cmd := s.sbx(c.before, append(c.args, "-sandbox", "open", "--", "sh", "-c", "echo $PPID; read line; exit 7")...)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			pid, _ := strconv.Atoi(strings.TrimSpace(line))
			served = slices.Contains(parents(pid), s.server.Process.Pid)
			stdin.Close()
			if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if served != c.served {
			t.Errorf("%s: served: %v, want %v", c.name, served, c.served)
		}
	}
}

// The server that runs the commands of sbx holds the processes of all sessions that its callers begin. Who is
// confined otherwise has his session held by another, and after an upgrade of the programs each session goes on.
func TestServeHoldsSessions(t *testing.T) {
	t.Parallel()
	s, _ := newUnserved(t)
	shell := func(before string, args ...string) (string, error) {
		cmd := exec.Command("/bin/sh", append([]string{"-c", before + "\nexec \"$0\" \"$@\"", filepath.Join(s.bin, "sbxhost")}, args...)...)
		cmd.Dir, cmd.Env = s.dir+"/project", s.env
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	sbxhost := func(args ...string) string {
		t.Helper()
		out, err := shell("", args...)
		if err != nil {
			t.Errorf("%q: %v\n%s", args, err, out)
		}
		return out
	}
	t.Cleanup(func() { sbxhost("serve", "-stop") })
	server := func() int {
		pid, _ := strconv.Atoi(servedBy(sbxhost("serve", "-status")))
		return pid
	}
	const confine = "exec setpriv --no-new-privs \"$0\" \"$@\""
	begin := func(before, session string) (background int) {
		t.Helper()
		if out, err := shell(before, "exec", "-config", s.dir+"/c.hcl", "-session", session, "-keep", "--", "sh", "-c", "sleep 1000 </dev/null >/dev/null 2>&1 &"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		until(t, "the background process", func() bool {
			for line := range strings.Lines(sbxhost("sessions", "list", "-v", session)) {
				if strings.HasSuffix(line, " sleep 1000\n") {
					background, _ = strconv.Atoi(strings.Fields(line)[1])
				}
			}
			return background != 0
		}, func() string { return session })
		return background
	}
	t.Cleanup(func() { shell("", "sessions", "rm", "one", "two", "confined") })

	one, two, confined := begin("", "one"), begin("umask 027", "two"), begin(confine, "confined")
	first := server()
	for _, pid := range []int{one, two} {
		if !slices.Contains(parents(pid), first) {
			t.Errorf("the server %d does not hold %d", first, pid)
		}
	}
	if slices.Contains(parents(confined), first) {
		t.Error("it holds what somebody has begun who is confined otherwise")
	}
	if out, err := shell(confine, "exec", "-config", s.dir+"/c.hcl", "-session", "one", "-keep", "--", "true"); err == nil || !strings.Contains(out, "no_new_privs") {
		t.Errorf("somebody confined otherwise joins: %v, %s", err, out)
	}
	if out, err := s.sbx("", "--", "echo", "served").CombinedOutput(); err != nil || string(out) != "served\n" {
		t.Errorf("%v, %s", err, out)
	}
	// A session that is not kept is the server's, too, and without it as good.
	const ancestors = `p=$$; while [ $p -gt 1 ]; do echo $p; p=$(cut -d" " -f4 /proc/$p/stat); done`
	for before, served := range map[string]bool{"": true, "export SBX_SERVE=off": false, confine: false} {
		out, err := shell(before, "exec", "-config", s.dir+"/c.hcl", "-session", "plain", "-sandbox", "open", "--", "sh", "-c", ancestors)
		if has := slices.Contains(strings.Fields(out), strconv.Itoa(first)); err != nil || has != served {
			t.Errorf("%q: %v, %v, %q", before, has, err, out)
		}
	}
	status := sbxhost("serve", "-status")
	if !strings.Contains(status, "it holds session one ") || !strings.Contains(status, "it holds session two ") || strings.Contains(status, "it holds session confined") {
		t.Errorf("%s", status)
	}

	program := filepath.Join(s.bin, "sbxhost")
	if out, err := exec.Command("sh", "-c", `cp "$0" "$0.new" && mv "$0.new" "$0"`, program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := shell("", "exec", "-config", s.dir+"/c.hcl", "-session", "one", "-keep", "--", "true"); err == nil || !strings.Contains(out, "sbxhost sessions rm one ends it") {
		t.Errorf("another program joins: %v, %s", err, out)
	}
	until(t, "another server", func() bool {
		s.sbx("", "--", "true").Run()
		return server() != first
	}, func() string { return sbxhost("serve", "-status") })
	sbxhost("sessions", "rm", "two")
	if !gone(two) {
		t.Error("what ran in a session that was removed is left")
	}
	if stat := procFile(one, "stat"); stat == "" {
		t.Error("and what ran in another one has gone with it")
	}
	sbxhost("sessions", "rm", "one", "plain") // the server would keep a host of the second for a minute
	if !gone(one) || !gone(first) {
		t.Error("the server, or what it held, does not end")
	}
	if stat := procFile(confined, "stat"); stat == "" {
		t.Error("the session of another server has ended")
	}
}

// The end of a login removes the directory of the user's server, which goes on. Its sessions can be
// joined and ended still, also while another server listens there.
func TestServeWithoutRuntimeDir(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	sbxhost := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), args...)
		cmd.Dir, cmd.Env = s.dir+"/project", s.env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v, %s", args, err, out)
		}
		return string(out)
	}
	keep := []string{"exec", "-config", s.dir + "/c.hcl", "-session", "s", "-keep", "--", "sh", "-c"}
	sbxhost(append(keep, "sleep 1000 </dev/null >/dev/null 2>&1 & echo $$ >/run/first")...)
	first := s.server
	if err := os.RemoveAll(s.dir + "/run/sbxhost"); err != nil {
		t.Fatal(err)
	}
	s.start(t)
	if out := sbxhost(append(keep, "test -s /run/first && echo again")...); out != "again\n" {
		t.Errorf("%q", out)
	}
	sbxhost("sessions", "rm", "s")
	late := time.AfterFunc(time.Minute, func() { first.Process.Kill() })
	defer late.Stop()
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	if out, err := s.sbx("", "--", "echo", "served").CombinedOutput(); err != nil || string(out) != "served\n" {
		t.Errorf("%v, %s", err, out)
	}
	if status := sbxhost("serve", "-status"); servedBy(status) != strconv.Itoa(s.server.Process.Pid) {
		t.Errorf("its end has taken the other one's socket: %s", status)
	}
}

// A server whose socket somebody removed ends, though it was not idle for long: it would keep the lock
// from the next one.
func TestServeWithoutItsSocket(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	if err := os.Remove(s.dir + "/run/sbxhost/serve"); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { s.server.Process.Kill() })
	defer late.Stop()
	if err := s.server.Wait(); err != nil {
		t.Error(err)
	}
	s.start(t)
	if out, err := s.sbx("", "--", "echo", "served").Output(); err != nil || string(out) != "served\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// Whoever is not served learns why, and which server it was that is another program.
func TestServeSaysWhyNot(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	other := t.TempDir()
	build(t, other, append(engineBinaries[:], "cmd/sbxhost", "cmd/sbx")...)
	for _, c := range []struct {
		program string
		args    []string
		want    string
	}{
		{s.bin + "/sbx", []string{"-v", "-config", s.dir + "/c.hcl", "-session", "s", "-keep", "--", "true"}, "it is in a kept session, which sbxhost exec asks for by itself"},
		{s.bin + "/sbx", []string{"-v", "-config", s.dir + "/c.hcl", "-c", "@/dev/stdin"}, "its script is a file or a pipe"},
		{other + "/sbx", []string{"-v", "-config", s.dir + "/c.hcl", "--", "true"}, "sbxhost serve -stop -dir \"" + s.dir + "/run/sbxhost\" ends it"},
		{other + "/sbxhost", []string{"serve", "-status"}, "process " + strconv.Itoa(s.server.Process.Pid) + " of " + s.bin + "/sbxhost serves"},
		{s.bin + "/sbxhost", []string{"sessions", "rm", "s"}, ""},
	} {
		cmd := exec.Command(c.program, c.args...)
		cmd.Dir, cmd.Env = s.dir+"/project", s.env
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), c.want) {
			t.Errorf("%q: %v, %s", c.args, err, out)
		}
	}
	// Commands of kept sessions would push the others out.
	if out, err := s.sbxhost("serve", "-status").CombinedOutput(); err != nil || strings.Contains(string(out), "by itself") || !strings.Contains(string(out), "its script is") {
		t.Errorf("%v, %s", err, out)
	}
}

// The server beside the sessions does not keep out who is confined otherwise once it holds nothing,
// and says meanwhile how to end it.
func TestServeSecondIsForAnybody(t *testing.T) {
	t.Parallel()
	s, _ := newUnserved(t)
	keep := func(before, session string) (string, error) {
		args := []string{"-c", before + "\nexec \"$0\" \"$@\"", filepath.Join(s.bin, "sbxhost"), "exec", "-config", s.dir + "/c.hcl", "-session", session, "-keep", "--", "echo", "kept"}
		cmd := exec.Command("/bin/sh", args...)
		cmd.Dir, cmd.Env = s.dir+"/project", append(s.env, "SBX_SERVE=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	rm := func(session string) {
		cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), "sessions", "rm", session)
		cmd.Env = s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v, %s", err, out)
		}
	}
	if out, err := keep("exec setpriv --no-new-privs \"$0\" \"$@\"", "one"); err != nil || out != "kept\n" {
		t.Fatalf("%v, %s", err, out)
	}
	if out, err := keep("", "two"); err == nil || !strings.Contains(out, "sbxhost serve -stop -dir ") {
		t.Errorf("%v, %s", err, out)
	}
	rm("one")
	if out, err := keep("", "two"); err != nil || out != "kept\n" {
		t.Errorf("%v, %s", err, out)
	}
	rm("two")
}

func procText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return string(text)
}

// statOf is a field of a process's stat, counted from 1.
func statOf(t *testing.T, pid string, field int) string {
	_, rest, _ := strings.Cut(procText(t, "/proc/"+pid+"/stat"), ") ")
	return strings.Fields(rest)[field-3]
}

// A host that is no credential's any more does not get it from a Host that was made before.
func TestServeFollowsACredential(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	if _, err := os.Stat(trustedFile); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "TOKEN=secret")
	configure := func(hosts string) {
		t.Helper()
		if err := os.WriteFile(s.dir+"/c.hcl", []byte(`credential "c" {
  hosts = ["`+hosts+`"]
  value = "Bearer ${env.TOKEN}"
}
sandbox "fast" {
  engine             = "native"
  network            = ["a.example", "b.example"]
  credentials = ["c"]
}
`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const show = `cat "$SSL_CERT_FILE"`
	// For whom the engine has a certificate, which is the last one of those that a command trusts.
	of := func(out []byte, err error) []string {
		t.Helper()
		for block, rest := pem.Decode(out); block != nil; block, rest = pem.Decode(rest) {
			out = block.Bytes
		}
		last, parseErr := x509.ParseCertificate(out)
		if err != nil || parseErr != nil {
			t.Fatal(err, parseErr)
		}
		return last.DNSNames
	}
	kept := func(script string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), "exec", "-config", s.dir+"/c.hcl", "-session", "k", "-keep", "-c", script)
		cmd.Dir, cmd.Env = s.dir+"/project", s.env
		return cmd
	}
	end := func() {
		cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), "sessions", "rm", "k")
		cmd.Env = s.env
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	defer end()
	for _, host := range []string{"a.example", "b.example"} {
		configure(host)
		if got := of(s.sbx("", "-c", show).Output()); !slices.Equal(got, []string{host}) {
			t.Errorf("served: %q, want %q", got, host)
		}
		if host == "b.example" {
			if out, err := kept("true").CombinedOutput(); err == nil || !strings.Contains(string(out), `was begun with another credential "c"`) || !strings.Contains(string(out), "sessions rm k") {
				t.Errorf("in a session with processes: %v\n%s", err, out)
			}
			end()
		}
		if got := of(kept("sleep 1000 </dev/null >/dev/null 2>&1 & " + show).Output()); !slices.Equal(got, []string{host}) {
			t.Errorf("kept: %q, want %q", got, host)
		}
	}
}

// A kept session keeps the value of a credential whose variable is unset by now, and says so.
func TestKeptCredentialIsNoted(t *testing.T) {
	t.Parallel()
	s := newServing(t)
	if err := os.WriteFile(s.dir+"/c.hcl", []byte(`credential "c" {
  hosts = ["a.example"]
  value = "Bearer ${env.TOKEN}"
}
sandbox "fast" {
  engine      = "native"
  network     = ["a.example"]
  credentials = ["c"]
}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	const note = `credential "c": a variable is not set; session "k" keeps the value`
	for _, c := range []struct {
		token string
		noted bool
	}{{"TOKEN=one", false}, {"TOKEN=two", false}, {"TOKEN=", true}, {"UNSET=", true}, {"TOKEN=two", false}} {
		cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), "exec", "-config", s.dir+"/c.hcl", "-session", "k", "-keep", "--", "true")
		cmd.Dir, cmd.Env = s.dir+"/project", append(slices.Clone(s.env), c.token)
		if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), note) != c.noted {
			t.Errorf("%s: %v, %s", c.token, err, out)
		}
	}
	cmd := exec.Command(filepath.Join(s.bin, "sbxhost"), "sessions", "rm", "k")
	cmd.Env = s.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// servedBy is the process of a server, by what serve -status prints of it; "" if there is none.
func servedBy(status string) string {
	fields := strings.Fields(status)
	if len(fields) < 2 || fields[0] != "process" {
		return ""
	}
	return fields[1]
}
