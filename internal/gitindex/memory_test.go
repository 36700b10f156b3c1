package gitindex

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
)

// counted counts the bytes that are read.
type counted struct {
	io.ReaderAt
	n int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, at)
	c.n += n
	return n, err
}

// An index is known again by its bytes, and by nothing else: a write through a mapping changes no time.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	text := index(t, "for i in $(seq 1200); do echo >file$i; done; mkdir d; git init -q d/r; (cd d/r; git -c user.name=a -c user.email=a@b commit -qm c --allow-empty); git add . 2>&1")
	if len(text) < minLength {
		t.Fatalf("%d bytes are not remembered", len(text))
	}
	path := filepath.Join(t.TempDir(), "index")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(text); err != nil {
		t.Fatal(err)
	}
	again := func(of io.ReaderAt, text []byte) {
		want, ok := Read(bytes.NewReader(text), int64(len(text)), 20)
		want.Entries = ""
		if got, is := ReadAgain(path, of, int64(len(text)), 20); is != ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %v; %v, %v", got.Links, is, want.Links, ok)
		}
	}
	known := func() bool {
		memory.Lock()
		defer memory.Unlock()
		return memory.looks[fmt.Sprint(len(text), 20, path)] != nil
	}
	again(f, text)
	if !known() {
		t.Fatal("it is not remembered")
	}
	same := &counted{ReaderAt: f}
	again(same, text)
	if same.n < len(text)-20 || same.n > len(text)+100 {
		t.Errorf("of %d bytes %d were read", len(text), same.n)
	}
	// Each of its bytes matters as for Read, also if it changes back.
	link := bytes.Index(text, []byte("d/r\x00"))
	for _, at := range []int{0, 9, 36, link, link + 2, len(text) - 21, len(text) / 2} {
		for range 2 {
			text[at] ^= 1
			if _, err := f.WriteAt(text[at:at+1], int64(at)); err != nil {
				t.Fatal(err)
			}
			again(f, text)
		}
	}
	// What is cut off while it is read is no index, and is none again.
	short := io.NewSectionReader(f, 0, int64(len(text)/2))
	for range 2 {
		if _, ok := ReadAgain(path, short, int64(len(text)), 20); ok {
			t.Error("half an index is understood")
		}
	}
	again(f, text)
	var all sync.WaitGroup
	for i := range 4 * maxLooks {
		all.Go(func() {
			if i, ok := ReadAgain(fmt.Sprint(path, i), f, int64(len(text)), 20); !ok || len(i.Links) != 1 {
				t.Error(i.Links, ok)
			}
		})
	}
	all.Wait()
	if len(memory.looks) > maxLooks {
		t.Errorf("%d looks are remembered", len(memory.looks))
	}
}
