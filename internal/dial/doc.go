// Package dial is the host's end of the engine protocol: it launches engines' programs, or attaches
// to a running one, and returns a [shared.Engine] that behaves like one in this process.
// [shared.ErrEngineLost] reports additional failures; [New] lists other differences.
//
// It neither finds nor checks programs, and does not restart them: package launch does.
package dial

import "time"

// DefaultStartTimeout is how long an engine may take to report that it is ready.
const DefaultStartTimeout = 10 * time.Second
