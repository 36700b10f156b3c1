//go:build unix && !linux

package facts

// boundSockets finds none: the caller must search for them.
func (f *lookup) boundSockets([]string, bool) (files []string, all bool) { return nil, false }
