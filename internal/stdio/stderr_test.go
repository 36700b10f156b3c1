package stdio

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// says runs a command that writes to the standard output and error that it is given.
func says(t *testing.T, s *Streams, stdout, stderr string) (f *Files, handed *os.File) {
	t.Helper()
	f = &Files{}
	made, err := f.Make(s)
	if err != nil {
		t.Fatal(err)
	}
	if f.Copy(); made.Stdout != nil {
		io.WriteString(made.Stdout, stdout)
	}
	if made.Stderr != nil {
		io.WriteString(made.Stderr, stderr)
	}
	f.CloseChild()
	closed := make(chan struct{})
	close(closed)
	if err := f.End(time.Minute, closed); err != nil {
		t.Error(err)
	}
	return f, made.Stderr
}

// What a confined command writes to its standard error is kept on its way.
func TestSaid(t *testing.T) {
	t.Parallel()
	pipe := func(t *testing.T) (read, write *os.File) {
		t.Helper()
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { read.Close(); write.Close() })
		return read, write
	}
	t.Run("pipe", func(t *testing.T) {
		t.Parallel()
		read, write := pipe(t)
		f, handed := says(t, &Streams{Stderr: write, Confined: true}, "", "words")
		if handed == write {
			t.Error("the pipe itself was handed over")
		}
		write.Close()
		if all, err := io.ReadAll(read); string(all) != "words" || string(f.StderrExcerpt()) != "words" {
			t.Errorf("passed %q (%v), kept %q", all, err, f.StderrExcerpt())
		}
	})
	t.Run("one pipe for both", func(t *testing.T) {
		t.Parallel()
		read, write := pipe(t)
		again, err := duplicate(write)
		if err != nil {
			t.Fatal(err)
		}
		f, _ := says(t, &Streams{Stdout: write, Stderr: again, Confined: true}, "out ", "err")
		again.Close()
		write.Close()
		if all, _ := io.ReadAll(read); string(all) != "out err" || string(f.StderrExcerpt()) != "out err" {
			t.Errorf("passed %q, kept %q", all, f.StderrExcerpt())
		}
	})
	t.Run("standard output by itself is not kept", func(t *testing.T) {
		t.Parallel()
		_, out := pipe(t)
		_, stderr := pipe(t)
		if f, _ := says(t, &Streams{Stdout: out, Stderr: stderr, Confined: true}, "out", "err"); string(f.StderrExcerpt()) != "err" {
			t.Errorf("kept %q", f.StderrExcerpt())
		}
	})
	t.Run("nobody reads any more", func(t *testing.T) {
		t.Parallel()
		read, write := pipe(t)
		read.Close()
		f := &Files{}
		made, err := f.Make(&Streams{Stderr: write, Confined: true})
		if err != nil {
			t.Fatal(err)
		}
		f.Copy()
		for err == nil { // until the copier has seen it, as the command would
			_, err = io.WriteString(made.Stderr, "x")
		}
		f.CloseChild()
		closed := make(chan struct{})
		close(closed)
		if err := f.End(time.Minute, closed); err != nil {
			t.Errorf("the command's own end is not the caller's error: %v", err)
		}
	})
	t.Run("socket", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		conn, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		peer, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		file, err := conn.(*net.UnixConn).File()
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		f, _ := says(t, &Streams{Stderr: file, Confined: true}, "", "words")
		file.Close()
		if all, _ := io.ReadAll(peer); string(all) != "words" || string(f.StderrExcerpt()) != "words" {
			t.Errorf("passed %q, kept %q", all, f.StderrExcerpt())
		}
	})
	for name, flags := range map[string]int{"file": os.O_WRONLY | os.O_CREATE, "file that is appended to": os.O_WRONLY | os.O_CREATE | os.O_APPEND, "file that can be read": os.O_RDWR | os.O_CREATE | os.O_APPEND} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte("before "), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := os.OpenFile(path, flags, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if flags&os.O_APPEND == 0 {
				file.Seek(0, io.SeekEnd)
			}
			f, handed := says(t, &Streams{Stderr: file, Confined: true}, "", "words")
			text, err := os.ReadFile(path)
			if handed == file || string(text) != "before words" || err != nil || string(f.StderrExcerpt()) != "words" {
				t.Errorf("handed over: %v, written %q (%v), kept %q", handed == file, text, err, f.StderrExcerpt())
			}
			file.WriteString(" after") // where the command's end
			other, err := os.OpenFile(path, flags, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			says(t, &Streams{Stdout: file, Stderr: other, Confined: true}, " out", " err")
			if text, _ := os.ReadFile(path); string(text) != "before words after out err" {
				t.Errorf("of both outputs: %q", text)
			}
			// Of a background process, too: nobody copies it after the command's end.
			if _, handed := says(t, &Streams{Stderr: file, Confined: true, MayOutlive: true}, "", ""); handed != file {
				t.Error("a file for background processes was not handed over")
			}
		})
	}
	t.Run("of a command that is not confined nothing is", func(t *testing.T) {
		t.Parallel()
		_, write := pipe(t)
		if f, handed := says(t, &Streams{Stderr: write}, "", "words"); handed != write || f.StderrExcerpt() != nil {
			t.Errorf("handed over: %v, kept %q", handed == write, f.StderrExcerpt())
		}
	})
	t.Run("much", func(t *testing.T) {
		t.Parallel()
		f, _ := says(t, &Streams{Stderr: io.Discard, Confined: true}, "", "begin"+strings.Repeat("x", 1<<20)+"end")
		if text := string(f.StderrExcerpt()); len(text) > maxStderr+100 || !strings.HasPrefix(text, "begin") || !strings.HasSuffix(text, "end") {
			t.Errorf("kept %d bytes", len(text))
		}
	})
}

// A start in another engine, which takes no terminal, closes what the first one was to get.
func TestRemakeCloses(t *testing.T) {
	t.Parallel()
	var f Files
	if _, err := f.Make(&Streams{TTY: true, MayOutlive: true, Stdout: io.Discard, Stderr: new(bytes.Buffer)}); err != nil {
		t.Fatal(err)
	}
	read := f.sharedPipes[0].read
	f.Remake()
	if err := read.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the pipe was open: %v", err)
	}
	f.CloseChild()
	f.Close()
}
