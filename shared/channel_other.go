//go:build unix && !linux

package shared

// These systems know neither flag: the Go runtime ignores SIGPIPE on sockets,
// and descriptors are made close-on-exec after they arrived.
const (
	noSignal     = 0
	receiveFlags = 0
)
