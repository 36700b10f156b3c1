//go:build unix && !linux

package cmdengine

// family needs Linux's pidfds. Engines elsewhere have no init either.
type family struct{}

func (*family) observe(int, bool, <-chan struct{}) {}
func (*family) end()                               {}
