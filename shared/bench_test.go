package shared

import (
	"io"
	"os"
	"testing"
)

// BenchmarkOutput is what a command's stdout carries, from a command that does
// nothing but write to a reader that does nothing but read.
func BenchmarkOutput(b *testing.B) {
	const size = 512 << 20
	for _, tr := range transports() {
		b.Run(tr.name, func(b *testing.B) {
			s := open(b, tr.connect(b, &testEngine{}))
			b.SetBytes(size)
			buf := make([]byte, 256<<10)
			for b.Loop() {
				r, w := pipe(b)
				p := startCommand(b, s, sh("exec dd if=/dev/zero bs=64k count=8192 2>/dev/null"), Stdio{Stdout: w})
				w.Close()
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, buf)
				if n != size || err != nil {
					b.Fatal(n, err)
				}
				waitFor(b, p)
			}
		})
	}
}

// BenchmarkInput is the same for stdin.
func BenchmarkInput(b *testing.B) {
	const size = 256 << 20
	for _, tr := range transports() {
		b.Run(tr.name, func(b *testing.B) {
			s := open(b, tr.connect(b, &testEngine{}))
			b.SetBytes(size)
			buf := make([]byte, 256<<10)
			for b.Loop() {
				r, w := pipe(b)
				p := startCommand(b, s, sh("exec dd of=/dev/null bs=64k 2>/dev/null"), Stdio{Stdin: r})
				r.Close()
				for range size / len(buf) {
					if _, err := w.Write(buf); err != nil {
						b.Fatal(err)
					}
				}
				w.Close()
				waitFor(b, p)
			}
		})
	}
}

// BenchmarkTrue is the time from Start to the end of Wait of a command that
// does nothing, with three files as its stdio.
func BenchmarkTrue(b *testing.B) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	for _, tr := range transports() {
		b.Run(tr.name, func(b *testing.B) {
			s := open(b, tr.connect(b, &testEngine{}))
			cmd := Command{Args: []string{"/bin/true"}, Dir: "/"}
			for b.Loop() {
				waitFor(b, startCommand(b, s, cmd, Stdio{null, null, null}))
			}
		})
	}
}
