package cmdengine

import (
	"encoding/json"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/internal/engine/traced"
	"github.com/sbxhost/sbxhost/shared"
)

// tracedEvent reports what a command failed at.
func tracedEvent(calls []traced.Call) shared.Event {
	list := make([]shared.TracedCall, len(calls))
	for i, c := range calls {
		list[i] = shared.TracedCall{Wants: c.Wants.String(), Target: c.Target, Error: unix.ErrnoName(c.Errno)}
	}
	text, _ := json.Marshal(list) // texts and numbers always encode
	return shared.Event{Kind: shared.EventTraced, Message: strconv.Itoa(len(calls)) + " different calls of the command have failed",
		Details: map[string]string{"calls": string(text)}}
}

// eventBuffer is how many events can wait for a reader: a command that asks for many names causes
// one for each.
const eventBuffer = 1024
