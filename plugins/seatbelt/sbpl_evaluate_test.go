package seatbelt

// This is a model of the sandbox profile language of macOS, for
// tests on machines that have no such sandbox: it parses a profile and says what
// the kernel would decide of an access.
//
// It knows the part of the language that this package writes, and refuses
// everything else: an operation or a filter that it does not know is an error,
// for on a Mac it would be one too, or mean something that nobody has thought of.
//
// # Precedence
//
// Apple documents none. [asDocumented] is what others have measured:
//
//   - Of two rules of one operation that have filters and match, the later wins.
//   - A rule without a filter is its operation's default: it does not override
//     one with a filter, in either order.
//   - A rule for a specific operation wins over one for a wildcard that covers
//     it, in either order.
//
// [byLastMatch] is what most people believe: the last rule that matches, of
// whatever operation. A profile whose verdicts are the same under both does not
// depend on which is right.
//
// # Paths
//
// The kernel matches the path of the file that was found, not the one that was
// asked for. A [sbplFiles] is a small world in which to resolve names: symbolic
// links, firmlinks of the data volume, names in another case or another form of
// Unicode, /.vol paths, and files with several names.

// sbplAccess is one question to the kernel. Path is resolved already; see
// [sbplFiles.Resolve].
type sbplAccess struct {
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

// sbplPrecedence says which of several matching rules wins.
type sbplPrecedence int

const (
	asDocumented sbplPrecedence = iota
	byLastMatch
)

// sbplVerdict is the answer and the rule that gave it.
type sbplVerdict struct {
	Allow bool
	Rule  *sbplRule // nil where none did: the kernel then denies
}

// Decide evaluates an access.
func (p *sbplProfile) Decide(s sbplPrecedence, a sbplAccess) sbplVerdict {
	if s == byLastMatch {
		return p.lastMatch(&a)
	}
	for _, operation := range coveringOperations(a.Operation) {
		var filtered, plain *sbplRule
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
			return sbplVerdict{filtered.Allow, filtered}
		}
		if plain != nil {
			return sbplVerdict{plain.Allow, plain}
		}
	}
	return sbplVerdict{}
}

func (p *sbplProfile) lastMatch(a *sbplAccess) sbplVerdict {
	operations := coveringOperations(a.Operation)
	for i := len(p.Rules) - 1; i >= 0; i-- {
		r := &p.Rules[i]
		for _, operation := range operations {
			if r.names(operation) && (r.Filter == nil || r.Filter(a)) {
				return sbplVerdict{r.Allow, r}
			}
		}
	}
	return sbplVerdict{}
}

func (r *sbplRule) names(operation string) bool {
	for _, o := range r.Operations {
		if o == operation {
			return true
		}
	}
	return false
}
