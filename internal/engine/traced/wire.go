package traced

import "github.com/sbxhost/sbxhost/internal/frame"

// Report has the calls of a command, from its tracer. Trust it no more than the command.
type Report struct{ Calls []Call }

// MaxReport bounds a report's payload, in bytes.
const MaxReport = 4 + MaxCalls*9 + MaxBytes

func (r *Report) Fields(c *frame.Codec) {
	bytes := 0
	frame.List(c, &r.Calls, 9, func(call *Call) {
		frame.Byte(c, &call.Wants)
		c.Text(&call.Target)
		frame.Int(c, &call.Errno)
		if bytes += len(call.Target); call.Wants >= operations || call.Target == "" || len(call.Target) > MaxTarget || bytes > MaxBytes || !MayBeSandbox(call.Errno) {
			c.Fail("no such failed call")
		}
	})
	if len(r.Calls) > MaxCalls {
		c.Fail("too many failed calls")
	}
}
