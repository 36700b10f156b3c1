package gate

import "time"

// maxMemory is what a gate holds at the most, in bytes, with as much of everything as atMost has; it is
// the figure in docs/security.md. A limit of the command's memory makes it less: a quarter of
// that, of which everything gets its part.
const maxMemory = 128 << 20

// bounds are how much a command can make its gate hold at once. What one of each costs at the
// worst is measured by TestBounds.
type bounds struct {
	// connections may be open out of the sandbox, and as many again into it. More of them wait.
	connections int
	// injecting are those of them to hosts of credentials: one holds a request with its answer. More of them wait.
	injecting int
	// names may have an address. More of them get none.
	names int
	// listeners are those for single names. More of them make way for one another.
	listeners int
	// questions to the nameserver are answered at once. More of them wait, or are lost.
	questions int
	// sessions are connections of HTTP/2 from the command, of which each has so many streams. More
	// connections get HTTP/1, and more streams are refused by the protocol.
	sessions, streams int
	// requests of HTTP/2 are passed on at once. More of them wait.
	requests int
	// header is the longest of a request, in bytes: net/http's server answers a longer one with 431.
	header int
	// reported are refusals that are told one by one. More of them are counted.
	reported int
	// idle is for how long a connection to a host of credentials is kept without a request.
	idle time.Duration
	// stuck is for how long a client of such a connection may take nothing of what it is sent: it
	// may have been stopped. What comes slowly, or not at all, is not ended by it.
	stuck time.Duration
}

var atMost = bounds{connections: 256, injecting: 112, names: 3072, listeners: 1024, questions: 128, sessions: 8, streams: 16, requests: 32, header: maxRequest, reported: 1000,
	idle: time.Minute, stuck: 5 * time.Minute}

// boundsOf are those of a command whose memory is limited to that many bytes, 0 for not at all.
func boundsOf(memory uint64) bounds {
	share := uint64(maxMemory)
	if memory > 0 {
		share = min(share, memory/4)
	}
	part := func(most, least int) int { return max(least, int(uint64(most)*share/maxMemory)) }
	b := atMost
	b.connections, b.injecting, b.questions = part(b.connections, 16), part(b.injecting, 14), part(b.questions, 16)
	b.names, b.listeners, b.reported = part(b.names, 256), part(b.listeners, 64), part(b.reported, 100)
	b.sessions, b.requests = part(b.sessions, 1), part(b.requests, 4)
	return b
}

const (
	// maxResponse is the longest header of an answer, in bytes. A listed host is not trusted either, and net/http takes 10 MiB.
	maxResponse = 32 << 10
	// maxFrame is the longest of HTTP/2 that a command may send: the shortest limit there is.
	maxFrame = 16 << 10
	// upload and download are what is taken of a body of HTTP/2 before somebody reads it. The
	// first is on its way through a loopback; the second bounds what comes in one turn around
	// the world, and the host chooses how many connections it takes.
	upload, download = 128 << 10, 1 << 20
	// maxIdle connections to hosts of credentials are kept for the next request.
	maxIdle = 32
	// maxSums are outcomes that are summed up at once, before they are told.
	maxSums = 256
	// maxText is the longest name or reason of a decision, in bytes: a certificate can name
	// as many hosts as it likes.
	maxText = 512
	// waiting connections of one listener are kept by the kernel until there is a place for them.
	// The listeners for single names share that many, and of each there are some.
	waiting, waitingLeast = 4096, 16
)
