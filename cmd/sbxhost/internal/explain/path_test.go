package explain

import (
	"testing"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// The access agrees with the denials, also where a sandbox has a directory of its own.
func TestFind(t *testing.T) {
	t.Parallel()
	spec := &shared.Spec{Home: "/home/u", Devices: []string{"/dev/fuse"}}
	for p, want := range map[string]struct {
		unread bool
		access string
	}{
		"/dev/kvm": {true, "not shown"}, "/dev/sda": {false, "not shown"}, "/dev/fuse": {false, "read-write"}, "/dev/null": {false, "read-write"},
		"/dev": {false, "read-only"}, "/dev/shm": {false, "private"}, "/dev/shm/x": {false, "private"}, "/proc/1/mem": {false, "read-only"},
		"/run": {true, "private"}, "/run/docker.sock": {true, "not shown"}, "/tmp": {false, "private"}, "/tmp/x": {false, "private"}, "/tmp/host": {true, "not shown"},
		"/home/u": {true, "private"}, "/home/u/.npmrc": {true, "not shown"},
	} {
		out := &pathJSON{Path: p, LeadsTo: p}
		if want.unread {
			out.Denials, out.lines = []host.Denial{{Operation: "read"}}, []string{"it is not shown"}
		}
		out.find(spec)
		if told := len(out.lines) > 0; out.Access != want.access || told != (out.Access == "not shown" && want.unread) {
			t.Errorf("%s: %q, and %d denials, want %q", p, out.Access, len(out.lines), want.access)
		}
	}
}
