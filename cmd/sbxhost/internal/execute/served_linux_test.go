package execute

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// A server does not read a client's script from a pipe, where the client would not find it again.
func TestServerReadsNoPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() { written <- os.WriteFile(path, []byte("true"), 0o600) }()
	e := Execution{App: &cli.App{}, Remote: &Remote{}}
	fs := cli.NewFlags("exec")
	e.RegisterExec(fs)
	if err := fs.Parse([]string{"-c", "@" + path}); err == nil {
		t.Fatal("it was read")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "true" {
		t.Errorf("the client reads %q, %v", text, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
