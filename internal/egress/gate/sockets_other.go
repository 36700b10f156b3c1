//go:build unix && !linux

package gate

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// errElsewhere says that only Linux has network namespaces.
var errElsewhere = errors.New("a gate needs the network namespaces of Linux")

func makeLocal(*os.File, netip.Prefix) error               { return errElsewhere }
func filterResets(syscall.Conn) error                      { return errElsewhere }
func readReset(int) (netip.AddrPort, uint32, bool)         { return netip.AddrPort{}, 0, false }
func acceptWaiting(*net.TCPListener) (*net.TCPConn, error) { return nil, errElsewhere }
func wasReset(net.Conn) bool                               { return false }
func delivered(net.Conn) uint64                            { return 0 }
