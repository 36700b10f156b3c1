// Package dial is the host's end of the engine protocol: it launches engines' programs,
// or attaches to one that runs, and gives a [shared.Engine] that behaves as one in this
// process does. What can fail besides is told by [shared.ErrEngineLost]; [New] lists what
// else shows where a command's files cannot be handed over.
//
// It neither looks for programs nor checks them, and starts none anew: package host does.
package dial

import "time"

// DefaultStartTimeout is how long an engine may take to say that it is ready.
const DefaultStartTimeout = 10 * time.Second
