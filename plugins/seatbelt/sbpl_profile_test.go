package seatbelt

import (
	"fmt"
	"regexp"
	"strings"
)

// sbplProfile is a parsed profile.
type sbplProfile struct {
	Rules []sbplRule
}

// sbplRule is one allow or deny.
type sbplRule struct {
	Allow      bool
	Operations []string
	Filter     sbplFilter // nil where it has none
	Message    string     // of (with message ...)
	Line       int
}

func (r *sbplRule) String() string {
	verb := "deny"
	if r.Allow {
		verb = "allow"
	}
	return fmt.Sprintf("line %d: %s %s", r.Line, verb, strings.Join(r.Operations, " "))
}

// sbplFilter reports whether a rule is about an access.
type sbplFilter func(*sbplAccess) bool

// parseSBPL reads a profile with its parameters.
func parseSBPL(source string, parameters map[string]string) (*sbplProfile, error) {
	expressions, err := readSBPL(source)
	if err != nil {
		return nil, err
	}
	if len(expressions) == 0 {
		return nil, fmt.Errorf("a profile begins with (version 1)")
	}
	c := &sbplCompiler{parameters: parameters}
	p := &sbplProfile{}
	for i, e := range expressions {
		switch {
		case i == 0:
			if !e.isList("version") || len(e.list) != 2 || e.list[1].text != "1" {
				return nil, fmt.Errorf("line %d: a profile begins with (version 1)", e.line)
			}
		case e.isList("allow"), e.isList("deny"):
			rule, err := c.rule(e)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", e.line, err)
			}
			p.Rules = append(p.Rules, rule)
		default:
			return nil, fmt.Errorf("line %d: not a rule", e.line)
		}
	}
	return p, nil
}

type sbplCompiler struct {
	parameters map[string]string
}

func (c *sbplCompiler) rule(e sbplNode) (sbplRule, error) {
	r := sbplRule{Allow: e.list[0].text == "allow", Line: e.line}
	var filters []sbplFilter
	for _, item := range e.list[1:] {
		switch {
		case item.kind == sbplAtom && len(filters) == 0:
			if !knownOperation(item.text) {
				return r, fmt.Errorf("unbound variable: %s", item.text)
			}
			r.Operations = append(r.Operations, item.text)
		case item.isList("with"):
			if len(item.list) != 3 || item.list[1].text != "message" || item.list[2].kind != sbplText {
				return r, fmt.Errorf("a modifier that is not (with message \"...\")")
			}
			r.Message = item.list[2].text
		default:
			f, err := c.filter(item)
			if err != nil {
				return r, err
			}
			filters = append(filters, f)
		}
	}
	if len(r.Operations) == 0 {
		return r, fmt.Errorf("a rule without an operation")
	}
	if len(filters) > 0 {
		r.Filter = anyOf(filters)
	}
	return r, nil
}

func anyOf(filters []sbplFilter) sbplFilter {
	return func(a *sbplAccess) bool {
		for _, f := range filters {
			if f(a) {
				return true
			}
		}
		return false
	}
}

func allOf(filters []sbplFilter) sbplFilter {
	return func(a *sbplAccess) bool {
		for _, f := range filters {
			if !f(a) {
				return false
			}
		}
		return true
	}
}

// value evaluates an expression for a string.
func (c *sbplCompiler) value(n sbplNode) (string, error) {
	switch {
	case n.kind == sbplText:
		return n.text, nil
	case n.isList("param") && len(n.list) == 2 && n.list[1].kind == sbplText:
		v, ok := c.parameters[n.list[1].text]
		if !ok {
			return "", fmt.Errorf("no parameter %q", n.list[1].text)
		}
		return v, nil
	case n.isList("string-append"):
		out := ""
		for _, item := range n.list[1:] {
			v, err := c.value(item)
			if err != nil {
				return "", err
			}
			out += v
		}
		return out, nil
	}
	return "", fmt.Errorf("not a string")
}

func (c *sbplCompiler) filter(n sbplNode) (sbplFilter, error) {
	if n.kind != sbplList || len(n.list) == 0 || n.list[0].kind != sbplAtom {
		return nil, fmt.Errorf("not a filter")
	}
	head, arguments := n.list[0].text, n.list[1:]
	switch head {
	case "require-all", "require-any", "require-not":
		var filters []sbplFilter
		for _, item := range arguments {
			f, err := c.filter(item)
			if err != nil {
				return nil, err
			}
			filters = append(filters, f)
		}
		switch {
		case len(filters) == 0:
			return nil, fmt.Errorf("(%s) of nothing", head)
		case head == "require-all":
			return allOf(filters), nil
		case head == "require-any":
			return anyOf(filters), nil
		case len(filters) != 1:
			return nil, fmt.Errorf("(require-not) of %d filters", len(filters))
		}
		return func(a *sbplAccess) bool { return !filters[0](a) }, nil
	case "local", "remote":
		return c.endpoint(head, arguments)
	}
	if len(arguments) != 1 {
		return nil, fmt.Errorf("(%s) with %d arguments", head, len(arguments))
	}
	switch head {
	case "regex", "path-regex":
		if arguments[0].kind != sbplRegex {
			return nil, fmt.Errorf("(%s) of what is no #\"...\"", head)
		}
		return pathRegex(arguments[0].text)
	case "vnode-type":
		want := arguments[0].text
		switch want {
		case "REGULAR-FILE", "DIRECTORY", "SYMLINK", "FIFO", "SOCKET", "CHARACTER-DEVICE", "BLOCK-DEVICE", "TTY":
		default:
			return nil, fmt.Errorf("no vnode type %q", want)
		}
		return func(a *sbplAccess) bool { return a.VnodeType == want }, nil
	case "target":
		want := arguments[0].text
		if want != "same-sandbox" && want != "self" {
			return nil, fmt.Errorf("no target %q", want)
		}
		return func(a *sbplAccess) bool { return a.Target == want || want == "same-sandbox" && a.Target == "self" }, nil
	case "socket-domain", "socket-protocol":
		want := arguments[0].text
		if head == "socket-domain" {
			return func(a *sbplAccess) bool { return a.SocketDomain == want }, nil
		}
		return func(a *sbplAccess) bool { return a.SocketProtocol == want }, nil
	}
	want, err := c.value(arguments[0])
	if err != nil {
		return nil, fmt.Errorf("(%s): %w", head, err)
	}
	switch head {
	case "literal", "path-literal":
		return func(a *sbplAccess) bool { return a.Path == want && want != "" }, nil
	case "subpath":
		if !strings.HasPrefix(want, "/") || want != "/" && strings.HasSuffix(want, "/") {
			return nil, fmt.Errorf("(subpath) of %q", want)
		}
		return func(a *sbplAccess) bool { return a.Path != "" && beneath(a.Path, want) }, nil
	case "prefix":
		return func(a *sbplAccess) bool { return a.Path != "" && strings.HasPrefix(a.Path, want) }, nil
	case "global-name":
		return func(a *sbplAccess) bool { return a.Service == want && want != "" }, nil
	case "sysctl-name":
		return func(a *sbplAccess) bool { return a.Sysctl == want && want != "" }, nil
	case "sysctl-name-prefix":
		return func(a *sbplAccess) bool { return a.Sysctl != "" && strings.HasPrefix(a.Sysctl, want) }, nil
	case "extension":
		return func(a *sbplAccess) bool { return a.Extension == want }, nil
	}
	return nil, fmt.Errorf("no filter %q", head)
}

// beneath is by components, as the kernel has it.
func beneath(p, root string) bool {
	return p == root || root == "/" || strings.HasPrefix(p, root) && p[len(root)] == '/'
}

// pathRegex takes the operators that the kernel's matcher is known to have.
func pathRegex(expr string) (sbplFilter, error) {
	if strings.Contains(expr, "(?") || strings.ContainsAny(expr, "\x00\n") {
		return nil, fmt.Errorf("a regular expression beyond the kernel's: %q", expr)
	}
	re, err := regexp.Compile("(?s)" + expr)
	if err != nil {
		return nil, err
	}
	return func(a *sbplAccess) bool { return a.Path != "" && re.MatchString(a.Path) }, nil
}

// endpoint is (remote ip "host:port"), (remote unix-socket FILTER) and their
// local counterparts. Addresses are "*" or "localhost" alone: the kernel takes
// no other.
func (c *sbplCompiler) endpoint(side string, arguments []sbplNode) (sbplFilter, error) {
	if len(arguments) == 0 || arguments[0].kind != sbplAtom {
		return nil, fmt.Errorf("(%s) of nothing", side)
	}
	kind := arguments[0].text
	switch kind {
	case "unix-socket":
		if len(arguments) != 2 {
			return nil, fmt.Errorf("(%s unix-socket) with %d arguments", side, len(arguments)-1)
		}
		inner, err := c.filter(arguments[1])
		if err != nil {
			return nil, err
		}
		return func(a *sbplAccess) bool { return a.SocketDomain == "AF_UNIX" && inner(a) }, nil
	case "ip", "tcp", "udp":
		if len(arguments) != 2 {
			return nil, fmt.Errorf("(%s %s) with %d arguments", side, kind, len(arguments)-1)
		}
		want, err := c.value(arguments[1])
		if err != nil {
			return nil, err
		}
		host, port, ok := strings.Cut(want, ":")
		if !ok || host != "*" && host != "localhost" {
			return nil, fmt.Errorf("host must be * or localhost in network address: %q", want)
		}
		return func(a *sbplAccess) bool {
			if a.Host == "" || a.SocketDomain != "AF_INET" {
				return false
			}
			if side == "local" && a.Operation == "network-outbound" {
				return true // the local end of an unbound socket is anything
			}
			return (host == "*" || a.Host == "localhost") && (port == "*" || port == a.Port)
		}, nil
	}
	return nil, fmt.Errorf("(%s %s) is not known", side, kind)
}
