//go:build unix && !linux

package facts

func (m *Machine) mountsBeneath() []string { return nil }
