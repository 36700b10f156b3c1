package sbplmodel

// Access is one question to the kernel. Path is resolved already; see
// [FileSystem.Resolve].
type Access struct {
	Operation string

	Path      string // also of a unix socket
	VnodeType string
	Extension string // that the process holds for the path

	Service string // of mach-lookup
	Sysctl  string
	Target  string // "self", "same-sandbox" or "others"

	SocketDomain   string // "AF_INET" (both families), "AF_UNIX", "AF_SYSTEM", ...
	SocketProtocol string
	Host, Port     string // "localhost" or any name
}

// Semantics says which of several matching rules wins.
type Semantics int

const (
	Documented Semantics = iota
	LastMatch
)

// Verdict is the answer and the rule that gave it.
type Verdict struct {
	Allow bool
	Rule  *Rule // nil where none did: the kernel then denies
}

// Decide evaluates an access.
func (p *Profile) Decide(s Semantics, a Access) Verdict {
	if s == LastMatch {
		return p.lastMatch(&a)
	}
	for _, operation := range chain(a.Operation) {
		var filtered, plain *Rule
		for i := range p.Rules {
			r := &p.Rules[i]
			if !r.names(operation) {
				continue
			}
			switch {
			case r.Filter == nil:
				plain = r
			case r.Filter(&a):
				filtered = r
			}
		}
		if filtered != nil {
			return Verdict{filtered.Allow, filtered}
		}
		if plain != nil {
			return Verdict{plain.Allow, plain}
		}
	}
	return Verdict{}
}

func (p *Profile) lastMatch(a *Access) Verdict {
	operations := chain(a.Operation)
	for i := len(p.Rules) - 1; i >= 0; i-- {
		r := &p.Rules[i]
		for _, operation := range operations {
			if r.names(operation) && (r.Filter == nil || r.Filter(a)) {
				return Verdict{r.Allow, r}
			}
		}
	}
	return Verdict{}
}

func (r *Rule) names(operation string) bool {
	for _, o := range r.Operations {
		if o == operation {
			return true
		}
	}
	return false
}
