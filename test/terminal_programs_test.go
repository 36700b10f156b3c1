//go:build linux

package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A shell inside has job control, and the keys reach its jobs.
func testJobControl(t *testing.T, p *place) {
	for _, sandbox := range p.sandboxes {
		s := p.screen(t)
		s.inside(sandbox)
		s.run("cat")
		s.cat()
		s.keys("C-z")
		s.sees(`Stopped +cat\nIN>$`)
		s.run("sleep 1000 &")
		s.run("jobs")
		s.sees(`^\[1\].* Stopped +cat\n.* Running +sleep 1000 &\nIN>$`)
		s.run("kill %2; wait %2")
		s.clear()
		s.run("fg")
		s.cat()
		s.keys("C-c")
		s.sees(`^\^C\nIN>$`)
		s.run("echo status=$?")
		s.sees(`^status=130\nIN>$`)
		s.clear()
		s.run("cat")
		s.cat()
		s.keys(`C-\`)
		s.sees(`Quit\nIN>$`)
		s.run("echo status=$?")
		s.sees(`^status=131\nIN>$`)
		s.clear()
		s.run("echo word-$TERM >/dev/tty; cat >text; echo end")
		s.sees(`^word-(screen|tmux).*$`)
		s.run("typed")
		s.keys("C-d")
		s.sees(`^end\nIN>$`)
		s.run("exit 3")
		s.sees(`^exit\n(sbxhost: .* discarded\n)?OUT>$`)
		s.run("echo status=$?")
		s.sees(`^status=3\nOUT>$`)
	}
}

// sbxhost is a job of the shell outside like any other.
func testOuterJobs(t *testing.T, p *place) {
	s := p.screen(t)
	s.inside("fast")
	s.run("cat")
	s.cat()
	pid := s.sbxhost()
	syscall.Kill(pid, syscall.SIGTSTP)
	s.sees(`Stopped +sbxhost(.*\n)+OUT>$`)
	s.clear()
	s.run("bg")
	s.repeats("jobs", "Stopped") // as every job that wants the terminal
	s.sees(`OUT>$`)
	s.clear()
	s.run("fg")
	s.cat() // until then ^C is for the shell, or for sbxhost
	s.keys("C-c")
	s.sees(`\^C\nIN>$`)

	// One that was stopped can be ended, which continues it in the background.
	s.run("trap 'exit 4' TERM; while echo tick; do sleep 0.05; done")
	s.sees(`^tick\ntick$`)
	syscall.Kill(pid, syscall.SIGTSTP)
	s.sees(`Stopped +sbxhost(.*\n)+OUT>( tick)?$`) // what it wrote before, a keeper may still be copying
	s.clear()
	s.run("kill %1")
	s.repeats("jobs", "Exit 4")
	s.clear()
	s.run("stty -a | grep -o ' icanon'")
	s.sees(`^ icanon$`)

	// Begun in the background, it waits for the terminal.
	s.clear()
	s.run("sbxhost exec -t -- cat &")
	s.sees(`^OUT>$`)
	s.repeats("jobs", "Stopped")
	s.clear()
	s.run("fg; echo end")
	s.cat()
	s.keys("C-d")
	s.sees(`^end\nOUT>$`)

	// Killed, it cannot restore the terminal; bash can.
	s.clear()
	s.inside("fast")
	syscall.Kill(s.sbxhost(), syscall.SIGKILL)
	s.sees(`OUT>$`)
	s.run("stty -a | grep -o ' icanon'")
	s.sees(`^ icanon$`)
}

// Without -t as with it, but that ^Z stops sbxhost with its command, since no shell
// inside has jobs.
func testUnasked(t *testing.T, p *place) {
	for _, sandbox := range p.sandboxes {
		s := p.screen(t)
		s.run("sbxhost exec -sandbox " + sandbox + " -- sh -c 'echo begun; until test _$x = _words; do read x; done; echo got-$x; read x'")
		s.sees(`^begun$`)
		s.stops()
		s.clear()
		s.run("stty -a | grep -o ' icanon'")
		s.sees(`^ icanon$`)
		s.run("fg")
		s.sees(`^sbxhost exec.*(\n.*)?$`)
		s.repeats("words", "\ngot-words\n")
		s.keys("C-c")
		s.repeats("echo end", "\nend\n") // what is typed before the shell reads is lost

		// A shell inside has them, and then they are stopped.
		s.clear()
		s.run("sbxhost exec -sandbox " + sandbox + " -- env 'PS1=IN> ' bash --norc --noprofile")
		s.sees(`^IN>$`)
		s.run("cat")
		s.cat()
		s.keys("C-z")
		s.sees(`Stopped +cat\nIN>$`)
		s.keys("C-z") // for nobody
		s.run("fg")
		s.cat()
		s.keys("C-c")
		s.sees(`\^C\nIN>$`)
		s.run("exit 6")
		s.sees(`OUT>$`)
		s.run("echo status=$?")
		s.sees(`^status=6$`)

		// Stopped, it can be ended.
		s.clear()
		s.run("sbxhost exec -sandbox " + sandbox + " -- sh -c 'trap \"exit 4\" TERM; while echo tick; do sleep 0.05; done'")
		s.sees(`^tick\ntick$`)
		s.stops()
		s.run("kill %1")
		s.repeats("jobs", "Exit 4")

		// With a terminal to write to alone, the keys are signals to sbxhost.
		s.clear()
		s.run("sbxhost exec -sandbox " + sandbox + " -- sh -c 'while echo tick; do sleep 0.05; done' </dev/null")
		s.sees(`^tick\ntick$`)
		s.stops()
		s.clear()
		s.run("fg")
		s.sees(`^tick\ntick$`)
		s.keys("C-c")
		s.sees(`(\^C|^)OUT>$`)
		s.run("echo status=$?")
		s.sees(`^status=130$`)
	}

	// Where no shell could continue it, ^Z stops nothing.
	l := p.dial(t, "exec", "--", "sh", "-c", "echo ready; read x; echo got-$x")
	l.sees("ready")
	l.becomesRaw()
	l.types("\x1awords\r")
	l.sees("got-words")
	if status := l.ends(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// stops types ^Z until the shell has its terminal back: what is typed before the
// terminal is sbxhost's is lost.
func (s *screen) stops() {
	s.t.Helper()
	s.insists("the job to stop", func() string {
		s.keys("C-z")
		return "Stopped"
	})
	s.keys("Enter") // after a ^Z too many
	s.sees(`OUT>$`)
}

// relayed waits until keys are sbxhost's to pass on: before that the terminal makes signals of them, for the
// whole job.
func (s *screen) relayed() {
	s.t.Helper()
	terminal := strings.TrimSpace(s.tmux("display-message", "-p", "#{pane_tty}"))
	until(s.t, "sbxhost to have the terminal", func() bool {
		modes, err := exec.Command("stty", "-F", terminal, "-a").Output()
		if err != nil {
			s.t.Fatal(err)
		}
		return strings.Contains(string(modes), "-isig")
	}, s.text)
}

// A command in the background goes on and reads nothing, nor is the terminal touched,
// until its job is in the foreground.
func testInBackground(t *testing.T, p *place) {
	for _, sandbox := range p.sandboxes {
		s := p.screen(t)
		s.run("sbxhost exec -sandbox " + sandbox + " -- sh -c 'echo begun; while read x; do echo got-$x; done; echo over' &")
		s.sees(`begun$`)
		s.run("echo typed")
		s.sees(`^typed$`)
		s.run("jobs; stty -a | grep -o ' icanon'")
		s.sees(`Running +sbxhost exec(.*\n)+ icanon\nOUT>$`)
		if strings.Contains(s.text(), "\ngot-") {
			t.Errorf("%s: the command has read what was typed to the shell:\n%s", sandbox, s.text())
		}
		s.clear()
		s.run("fg")
		s.repeats("words", "\ngot-words\n")
		s.stops()
		s.clear()
		s.run("bg; echo typed")
		s.sees(`typed\n(\^Z)?OUT>( \^Z)?$`) // the echo of ^Z may come late
		s.run("fg")
		s.repeats("more", "\ngot-more\n")
		if strings.Contains(s.text(), "got-echo") {
			t.Errorf("%s: the command has read what was typed to the shell:\n%s", sandbox, s.text())
		}
		s.keys("C-d")
		s.sees(`^over\nOUT>$`)
	}
}

// A pager that reads from sbxhost has its keys, and ^C.
func testPager(t *testing.T, p *place) {
	need(t, "less")
	for _, sandbox := range p.sandboxes {
		s := p.screen(t)
		s.run("sbxhost exec -sandbox " + sandbox + " -- sh -c 'seq 1000; exec sleep 1000' | less")
		s.sees(`^1\n2\n(.*\n)+:$`)
		s.keys("Space")
		s.sees(`^24\n(.*\n)+:$`)
		s.keys("G") // which waits for the rest
		s.sees(`^46\n\z`)
		s.keys("C-c")
		s.sees(`^1\n2\n(.*\n)+:$`)
		s.keys("Space")
		s.sees(`^24\n(.*\n)+:$`)
		s.keys("q")
		s.sees(`OUT>$`)
		s.run("stty -a | grep -o ' icanon'; jobs; echo end")
		s.sees(`^ icanon\nend\nOUT>$`)
	}
}

// What the keys for signals do to a job they do to all of it, as where the command
// had the terminal.
func testKeysOfTheJob(t *testing.T, p *place) {
	s := p.screen(t)
	for command, want := range map[string]string{
		"exec sleep 1000": `told\nOUT>$`, // it dies of ^C
		"trap 'exit 7' INT; until false; do sleep 0.02; done": `after 7\nOUT>$`, // it makes its own of it
	} {
		if err := os.WriteFile(filepath.Join(p.project, "inner"), []byte("echo begun; "+command+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		s.clear()
		s.run(`sh -c 'trap "echo told; exit" INT; sbxhost exec -- sh inner; echo after $?'`)
		s.sees(`^begun$`)
		s.stops() // the script, too
		s.run("fg")
		s.sees(`^sh -c .*(\n.*)?$`)
		s.relayed()
		s.keys("C-c")
		s.sees(want)
	}
}

// ^C ends a loop of bash if the command dies of it, and not if the command handles it.
func testLoop(t *testing.T, p *place) {
	s := p.screen(t)
	for _, input := range []string{"", "</dev/null "} {
		for command, want := range map[string]string{
			"exec sleep 1000": `^status=130\nOUT>$`,
			"trap 'exit 5' INT; until false; do sleep 0.02; done": `^status=7\nOUT>$`,
		} {
			s.clear()
			s.run("for i in 1 2; do sbxhost exec " + input + `-- sh -c "test $i = 2 && exit 7; echo begun; ` + command + `"; done`)
			s.sees(`^begun$`)
			if input == "" {
				s.relayed()
			}
			s.keys("C-c")
			s.sees(`(\^C|^)OUT>$`)
			s.run("echo status=$?")
			s.sees(want)
		}
	}
}

// A flood of output leaves ^C its way.
func testFlood(t *testing.T, p *place) {
	s := p.screen(t)
	s.run("sbxhost exec -t -- yes 'a flood'")
	s.sees(`(a flood\n){22}`)
	s.keys("C-c")
	s.sees(`OUT>$`)
	s.run("echo status=$?")
	s.sees(`status=130\nOUT>$`)
}

// sbxhost shell is the user's shell where that is there, with the PATH that was asked for.
func testShell(t *testing.T, p *place) {
	s := p.screen(t)
	flags := ""
	if p.session != "" {
		flags = " -env SHELL" // else the environment is that of the session's first command
	}
	for _, tt := range []struct{ shell, want string }{
		{"/bin/bash", `^shell=/bin/bash,/usr/bin$`},
		{"/nonexistent/shell", `^shell=.*/bash,/usr/bin$`},
		{"/bin/false", `^shell=.*/bash,/usr/bin$`},
	} {
		s.clear()
		s.run("SHELL=" + tt.shell + " sbxhost shell -sandbox fast" + flags + " -env MINE=5 -env PATH=/usr/bin")
		s.sees(`localhost.*[$#]$|^.*bash.*[$#]$`)
		s.run(`echo "shell=$SHELL,$PATH"; stty size`)
		s.sees(tt.want)
		s.sees(`^24 80$`)
		s.run("cat")
		s.cat()
		s.keys("C-z")
		s.sees(`Stopped +cat$`)
		s.run("exit $MINE")
		s.sees(`stopped jobs`) // bash says so once
		s.run("exit $MINE")
		s.sees(`^OUT>$`)
		s.run("echo status=$?")
		s.sees(`^status=5$`)
	}
	s.clear()
	s.run("SHELL=/bin/sh sbxhost shell" + flags)
	s.sees(`^[$#]$|[$#]$`)
	s.run("echo $-,$SHELL")
	s.sees(`i.*,/bin/sh$`)
	s.keys("C-d")
	s.sees(`OUT>$`)
}

func testResize(t *testing.T, p *place) {
	s := p.screen(t)
	s.run("sbxhost exec -- sh -c '" + sizes + "'")
	s.sees(`^ready 24 80$`)
	for size, args := range map[string][]string{"40 120": {"-y", "40", "-x", "120"}, "10 30": {"-y", "10", "-x", "30"}} {
		s.tmux(append([]string{"resize-window"}, args...)...)
		s.sees(`^drawn ` + size + `$`)
	}
	s.keys("C-c")
}

// A full-screen program fills the window, follows its size, and draws itself
// anew when sbxhost continues.
func testVim(t *testing.T, p *place) {
	need(t, "vim")
	s := p.screen(t)
	s.run("sbxhost exec -- vim -u NONE -N -n file")
	s.sees(`^~(\n.*)*"file" \[New\]`)
	s.run(":set laststatus=2 ruler")
	s.keys("i")
	s.run("first")
	s.tmux("send-keys", "-l", "grüße €")
	s.keys("Escape")
	s.sees(`^first\ngrüße €\n(~\n){20}file \[\+\]`)
	s.tmux("resize-window", "-y", "12", "-x", "60")
	s.sees(`^first\ngrüße €\n(~\n){8}file \[\+\]`)
	s.tmux("resize-window", "-y", "30", "-x", "100")
	s.sees(`^first\ngrüße €\n(~\n){26}file \[\+\]`)
	syscall.Kill(s.sbxhost(), syscall.SIGTSTP)
	s.sees(`Stopped`)
	s.run("clear")
	s.run("fg")
	s.sees(`^first\ngrüße €\n(~\n){26}file \[\+\]`)
	s.run(":wq")
	s.sees(`OUT>$`)
	s.clear()
	s.run("cat file; stty -a | grep -o ' icanon'")
	s.sees(`^first\ngrüße €\n icanon\nOUT>$`)
}

func testLess(t *testing.T, p *place) {
	need(t, "less")
	s := p.screen(t)
	s.run("sbxhost exec -t -c 'seq 1000 | less'")
	s.sees(`^1\n2\n(.*\n)+:$`)
	s.keys("G")
	s.sees(`^1000\n\(END\)$`)
	s.run("?^500")
	s.sees(`^500$`)
	s.keys("q")
	s.sees(`OUT>$`)
}

// The monitors see the processes of the sandbox alone.
func testMonitor(t *testing.T, p *place, program string) {
	need(t, program)
	s := p.screen(t)
	s.run("sbxhost exec -t -- " + program)
	s.sees(`(?i)PID +USER`)
	s.sees(`^ +1 .*(sbxhost|/proc/self/fd)`)
	s.keys("q")
	s.sees(`OUT>$`)
}

// tmux inside has terminals of its own, from the sandbox's own devpts.
func testTmuxInside(t *testing.T, p *place) {
	s := p.screen(t)
	s.inside("fast")
	s.run("SHELL=/bin/bash tmux -f /dev/null new-session 'tty; echo in-tmux; cat'")
	s.sees(`^/dev/pts/0\nin-tmux$`)
	s.run("typed")
	s.sees(`^typed\ntyped$`)
	s.tmux("resize-window", "-y", "30", "-x", "100")
	s.sees(`^typed\ntyped(\n.*){24,}0:tmux|^typed\ntyped(\n.*)+\[0\]`)
	s.keys("C-c")
	s.sees(`^\[exited\]\nIN>$`)
}

func testScriptInside(t *testing.T, p *place) {
	need(t, "script")
	s := p.screen(t)
	s.inside("fast")
	s.run("script -q -c 'stty size; echo recorded' record; echo status=$?")
	s.sees(`^24 80\nrecorded\nstatus=0\nIN>$`)
	s.run("grep -c recorded record")
	s.sees(`^[1-9]\nIN>$`)
	s.run("exit")
	s.sees(`OUT>$`)
}
