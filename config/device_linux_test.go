package config

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A command can lead the configuration of its workspace to a device that acts when it is opened. A
// fifo stands for one here.
func TestOpensNoDevice(t *testing.T) {
	t.Parallel()
	for _, name := range fileNames {
		dir := t.TempDir()
		if err := unix.Mkfifo(dir+"/device", 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("device", dir+"/"+name); err != nil {
			t.Fatal(err)
		}
		opens, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(opens)
		if _, err := unix.InotifyAddWatch(opens, dir+"/device", unix.IN_OPEN); err != nil {
			t.Fatal(err)
		}
		path, _, err := Find(LookupOptions{Dir: dir})
		if _, diags := Load(path, EvalInput{}); err != nil || path != dir+"/"+name || !diags.HasErrors() {
			t.Errorf("%s: %q, %v, %v", name, path, err, diags)
		}
		if _, err := unix.Read(opens, make([]byte, 1<<10)); err != unix.EAGAIN {
			t.Errorf("%s: the device was opened", name)
		}
	}
}
