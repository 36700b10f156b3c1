package traced

import "github.com/sbxhost/sbxhost/internal/frame"

// Report is the calls of a command as its tracer tells them. Who reads it believes no more
// of it than of the command.
type Report struct{ Calls []Call }

// MaxReport bounds a report's payload.
const MaxReport = 4 + MaxCalls*9 + MaxBytes

// Fields implements [frame.Message].
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
