package enginetest_test

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/frame"
	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "never hears of the host's end" {
		passOnChannel()
	}
	enginetest.Main(m, brokenInside(role))
}

// passOnChannel has what comes over the channel arrive by another, which does not end.
func passOnChannel() {
	from, err := strconv.Atoi(os.Getenv(wire.ChannelEnv))
	if err != nil {
		panic(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		panic(err)
	}
	os.Setenv(wire.ChannelEnv, strconv.Itoa(pair[0]))
	go func() {
		var message wire.FilesToken
		for {
			n, fds, err := frame.Receive(from, message[:])
			if n == 0 || err != nil {
				return
			}
			if err := unix.Sendmsg(pair[1], message[:n], unix.UnixRights(fds...), nil, 0); err != nil {
				panic(err)
			}
			frame.CloseAll(fds)
		}
	}()
}
