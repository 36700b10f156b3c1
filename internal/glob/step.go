package glob

// positions says where in a pattern a path can be: bit i means that the next name has to match name
// i of the pattern.
type positions uint64

func (p *Pattern) start() positions { return p.closure(1) }

// closure adds the positions after each "**".
func (p *Pattern) closure(at positions) positions {
	for i, n := range p.names {
		if n.deep && at&(1<<i) != 0 {
			at |= 1 << (i + 1)
		}
	}
	return at
}

// step consumes one name. accepted says that the path up to this name matches.
func (p *Pattern) step(at positions, name string) (next positions, accepted bool) {
	if at == 0 {
		return 0, false
	}
	for i := range p.names {
		if at&(1<<i) == 0 {
			continue
		}
		switch n := &p.names[i]; {
		case n.deep:
			next |= 1 << i
		case n.matches(name):
			next |= 1 << (i + 1)
		}
	}
	// A last "**" matches paths beneath, and so needs a name of its own.
	last := len(p.names) - 1
	accepted = next&(1<<(last+1)) != 0 || p.names[last].deep && at&(1<<last) != 0
	return p.closure(next) &^ (1 << (last + 1)), accepted
}
