package host_test

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/wire"
)

// muteEngine is the variable with which the test binary is such an engine.
const muteEngine = "SBXHOST_TEST_MUTE_ENGINE"

// serveNothing says that it is ready, and no more.
func serveNothing(how string) {
	path := os.Getenv("PLUGIN_UNIX_SOCKET_DIR") + "/s"
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	fmt.Printf("1|%d|unix|%s|grpc\n", wire.Handshake.ProtocolVersion, path)
	if how == "connected" {
		grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			select {} // nor when the caller's time is over, which is known here, too
		})).Serve(l)
	}
	time.Sleep(time.Hour) // nobody accepts
}

// An engine that is ready and answers nothing is given up in the time in which it has
// to be ready.
func TestMuteEngine(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"connected", "listening"} {
		// A busy machine may not have it listening in that time, or need long to end it: not each time.
		for try := 0; ; try++ {
			h, err := host.New(t.Context(), host.Options{EnginesOnly: true, StartTimeout: 4 * time.Second,
				Engines: map[string]host.EngineSource{"mute": {Source: self, Env: []string{muteEngine}}}, Environ: append(os.Environ(), muteEngine+"="+how)})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			before := time.Now()
			_, err = h.EngineInfo(t.Context(), "mute")
			took := time.Since(before)
			if err != nil && strings.Contains(err.Error(), "did not answer within 4s") && took < 15*time.Second { // go-plugin's own patience is 20
				break
			}
			if err == nil || try == 4 {
				t.Fatalf("%s: after %v: %v", how, took, err)
			}
		}
	}
}
