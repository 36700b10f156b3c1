package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Devices act when they are opened. A fifo stands for one here.
func TestReadFile(t *testing.T) {
	t.Parallel()
	dir := place(t, "real/file", "file -> real/file", "dir -> real", "planted -> real/device", "gone -> nowhere", "loop -> loop", "unlinked")
	if err := unix.Mkfifo(dir+"/real/device", 0o644); err != nil {
		t.Fatal(err)
	}
	unlinked, err := os.Open(dir + "/unlinked")
	if err != nil || os.Remove(dir+"/unlinked") != nil {
		t.Fatal(err)
	}
	defer unlinked.Close()
	opens, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(opens)
	if _, err := unix.InotifyAddWatch(opens, dir+"/real/device", unix.IN_OPEN); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		dir + "/real/file":                       nil,
		dir + "/file":                            nil,
		dir + "/dir/../real/file":                nil,
		dir + "/dir/file":                        nil,
		fmt.Sprintf("/dev/fd/%d", unlinked.Fd()): nil, // as of a shell's here-document
		dir + "/planted":                         ErrIrregular,
		dir + "/dir/device":                      ErrIrregular,
		dir + "/dir":                             ErrIrregular,
		dir + "/real":                            ErrIrregular,
		dir + "/gone":                            fs.ErrNotExist,
		dir + "/dir/none":                        fs.ErrNotExist,
		dir + "/loop":                            unix.ELOOP,
		fmt.Sprintf("/proc/self/fd/%d", opens):   ErrIrregular,
		fmt.Sprintf("/dev/fd/%d", int(^uint32(0)>>1)): fs.ErrNotExist,
	} {
		if text, err := ReadFile(path, 3); !errors.Is(err, want) || (string(text) == "old") != (want == nil) {
			t.Errorf("%s: %q, %v, want %v", path, text, err, want)
		}
		if _, err := ReadFile(path, 2); err == nil {
			t.Errorf("%s: read beyond the limit", path)
		}
	}
	if _, err := unix.Read(opens, make([]byte, 1<<10)); err != unix.EAGAIN {
		t.Error("the device was opened")
	}
}
