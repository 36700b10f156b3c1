package gate

import "time"

// maxMemory is the most memory that a gate holds, in bytes, at all of its limits; docs/security.md
// has this figure. If the command's memory has a limit, the gate's is at most a quarter of that,
// and each limit gets its part.
const maxMemory = 64 << 20

// bounds are how much a command can make its gate hold at once. TestBounds measures the highest
// cost of each.
type bounds struct {
	// connections may be open out of the sandbox, and as many again into it. Further ones wait.
	connections int
	// injecting are those to hosts of credentials: each holds a request with its answer. Further
	// ones wait.
	injecting int
	// names may be asked for, also those without an address. Further ones get none.
	names int
	// listeners are those for single names. Further names have none.
	listeners int
	// questions to the nameserver are answered at once. Further ones wait, or are lost.
	questions int
	// header is the longest header of a request, in bytes: net/http's server answers a longer one
	// with 431.
	header int
	// reported are refusals that the gate reports one by one. It only counts further ones.
	reported int
	// idle is how long to keep a connection to a host of credentials without a request.
	idle time.Duration
	// stuck is how long a client of such a connection may read nothing of what the gate sends, as if
	// it were stopped. It does not limit a slow or silent sender.
	stuck time.Duration
}

var atMost = bounds{connections: 256, injecting: 112, names: 3072, listeners: 1024, questions: 128, header: maxRequest, reported: 1000,
	idle: time.Minute, stuck: 5 * time.Minute}

// boundsOf returns the bounds for a command with this memory limit in bytes; 0 means no limit.
func boundsOf(memory uint64) bounds {
	share := uint64(maxMemory)
	if memory > 0 {
		share = min(share, memory/4)
	}
	part := func(most, least int) int { return max(least, int(uint64(most)*share/maxMemory)) }
	b := atMost
	b.connections, b.injecting, b.questions = part(b.connections, 16), part(b.injecting, 14), part(b.questions, 16)
	b.names, b.listeners, b.reported = part(b.names, 256), part(b.listeners, 64), part(b.reported, 100)
	return b
}

const (
	// maxResponse is the longest header of an answer, in bytes. The gate does not trust a listed
	// host either, and net/http takes 10 MiB.
	maxResponse = 32 << 10
	// maxIdle connections to hosts of credentials are kept for the next request.
	maxIdle = 32
	// maxSums is how many outcomes the gate sums up at once before it reports them.
	maxSums = 256
	// maxText is the longest name or reason of a decision, in bytes: a certificate can name any
	// number of hosts.
	maxText = 512
	// The kernel keeps this many waiting connections of one listener. The listeners for single
	// names share that number, and each has at least waitingLeast.
	waiting, waitingLeast = 4096, 16
)
