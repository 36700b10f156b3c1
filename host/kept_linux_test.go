package host_test

import (
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/host"
)

// A server that one command starts, the next one reaches.
func TestKeptProcesses(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(o *host.Options) {
		o.Sandboxes = map[string]host.Definition{"dev": {Engine: "native", Session: host.SessionDefinition{Processes: true}}}
		o.Session = host.SessionOptions{Dir: t.TempDir() + "/s"}
	})
	out := output(t, h, "dev", "sleep 1000 & echo $! >/tmp/pid; echo started; ls /proc/self/fd; id; cat /proc/self/status | grep Cap")
	t.Log(out)
	out = output(t, h, "dev", "ps aux 2>/dev/null || ls /proc; kill -0 $(cat /tmp/pid) && echo alive; cat /proc/$(cat /tmp/pid)/environ && echo READ; ls -l /proc/$(cat /tmp/pid)/cwd/ && echo READ")
	t.Log(out)
	if !strings.Contains(out, "alive") {
		t.Error("gone")
	}
}
