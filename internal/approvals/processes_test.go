package approvals

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test binary one of many processes that approve, or use up
// an approval, at once.
func TestMain(m *testing.M) {
	lockPatience = 10 * time.Minute // whoever has the lock goes on, however slow the machine is
	if dir := os.Getenv("USE_UP_IN"); dir != "" {
		os.Stdin.Read(make([]byte, 1))
		a, err := Open(dir).Find(context.Background(), testKey("once"), "")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if a != nil {
			fmt.Println("mine")
		}
		os.Exit(0)
	}
	if dir := os.Getenv("KILLED_IN"); dir != "" {
		for i := 0; ; i++ {
			if _, err := Open(dir).Add(context.Background(), testKey("make", strconv.Itoa(i%100)), Always, "", 0, ""); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(i)
		}
	}
	if dir := os.Getenv("APPROVE_IN"); dir != "" {
		// All wait for their common standard input to end.
		os.Stdin.Read(make([]byte, 1))
		key := testKey("make", os.Getenv("APPROVE_N"))
		if _, err := Open(dir).Add(context.Background(), key, Always, "", 0, ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// atOnce runs the test binary in many processes, each with its own variables, that
// wait for each other to begin, and gives what they have printed.
func atOnce(t *testing.T, count int, env func(i int) []string) string {
	t.Helper()
	gate, open, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	cmds, out := make([]*exec.Cmd, count), make([]bytes.Buffer, count)
	for i := range cmds {
		cmds[i] = exec.Command(os.Args[0])
		cmds[i].Env = append(os.Environ(), env(i)...)
		cmds[i].Stdin, cmds[i].Stdout, cmds[i].Stderr = gate, &out[i], os.Stderr
		if err := cmds[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	open.Close()
	var all strings.Builder
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
		all.Write(out[i].Bytes())
	}
	return all.String()
}

func TestManyProcesses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	const count = 50
	atOnce(t, count, func(i int) []string { return []string{"APPROVE_IN=" + dir, "APPROVE_N=" + strconv.Itoa(i)} })
	list, err := Open(dir).List()
	if err != nil || len(list) != count {
		t.Errorf("%d approvals of %d, %v", len(list), count, err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 2 {
		t.Errorf("left are %v, %v", names, err)
	}
}

// Of many processes that want one approval of the scope once, one gets it.
func TestOnceAmongProcesses(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	if _, err := Open(dir).Add(t.Context(), testKey("once"), Once, "", time.Hour, ""); err != nil {
		t.Fatal(err)
	}
	if out := atOnce(t, 50, func(int) []string { return []string{"USE_UP_IN=" + dir} }); out != "mine\n" {
		t.Errorf("it was used by %q", out)
	}
}

// Writers that are killed, wherever they are, leave a whole store and no lock.
func TestKilledWriters(t *testing.T) {
	t.Parallel()
	s := Open(filepath.Join(t.TempDir(), "state"))
	mustAdd(t, s, testKey("kept"), Always, "")
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	for range rounds {
		var cmds []*exec.Cmd
		for range 3 {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), "KILLED_IN="+s.Dir())
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			// Its second line says that it is at work.
			lines := bufio.NewScanner(out)
			for range 2 {
				if !lines.Scan() {
					t.Error("it wrote nothing")
				}
			}
			cmds = append(cmds, cmd)
		}
		for _, cmd := range cmds {
			cmd.Process.Kill()
			cmd.Wait()
		}
		if got := find(t, s, testKey("kept"), ""); got != Always {
			t.Errorf("what was approved before is lost: %q", got)
		}
		mustAdd(t, s, testKey("after"), Always, "")
	}
}
