package execute

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
)

// A server does not read a client's script from a pipe, where the client would not find it again.
func TestServerReadsNoPipe(t *testing.T) {
	t.Parallel()
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := w.WriteString("true"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	e := Execution{App: &cli.App{}, Remote: &Remote{}}
	fs := cli.NewFlags("exec")
	e.RegisterExec(fs)
	if err := fs.Parse([]string{"-c", fmt.Sprint("@/dev/fd/", pipe.Fd())}); err == nil {
		t.Fatal("it was read")
	}
	if text, err := io.ReadAll(pipe); err != nil || string(text) != "true" {
		t.Errorf("the client reads %q, %v", text, err)
	}
}
