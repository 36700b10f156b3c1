package egress

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	maxName  = 253 // RFC 1035, without the last dot
	maxLabel = 63
)

// A Rule allows a name, or all names below one, or denies what others allow.
type Rule struct {
	// Denies means that the rule denies, whatever other rules allow and wherever they are in the
	// list.
	Denies bool
	// Name is in lower-case ASCII, without a dot at its end.
	Name string
	// Subdomains means each name below Name ("*.Name"), and not Name itself.
	Subdomains bool
	// Ports are the ports that the rule allows; none means that it allows none. In a rule that
	// denies, they are the denied ports, and none means all.
	Ports []uint16
	// Private allows addresses that are not public; see CheckAddress.
	Private bool
}

// ParseRule reads a rule in the form of the package's documentation.
func ParseRule(text string) (r Rule, err error) {
	defer naming(text, &err)
	words := strings.Fields(text)
	switch {
	case len(words) == 0:
		return r, errors.New(`is empty: write a name, such as "registry.npmjs.org"`)
	case len(words) > 2 || len(words) == 2 && words[1] != "private":
		return r, errors.New(`has a space in it: write each name by itself, with nothing behind it but its ports and the word "private"`)
	}
	r.Private = len(words) == 2
	words[0], r.Denies = strings.CutPrefix(words[0], "!")
	name, ports, hasPorts := strings.Cut(words[0], ":")
	switch {
	case strings.Contains(words[0], "/"):
		return r, errors.New(`has a "/" in it: write the name alone, without "https://" and without a path`)
	case strings.Contains(words[0], "@"):
		return r, errors.New(`has an "@" in it: write the name alone, without a user`)
	case strings.ContainsAny(words[0], "[]%") || strings.HasPrefix(ports, ":") || strings.Count(words[0], ":") > 2:
		return r, errAddress
	case r.Denies && r.Private:
		return r, errors.New(`denies a name, whatever address that has: leave out the word "private"`)
	case strings.Contains(ports, ":"):
		return r, errors.New(`has two colons: write ports with commas between them, such as "example.com:80,443"`)
	}
	if !r.Denies {
		r.Ports = []uint16{80, 443} // of HTTP and HTTPS
	}
	if hasPorts {
		if r.Ports, err = parsePorts(ports); err != nil {
			return r, err
		}
	}
	if name == "*" {
		return r, errors.New(`would allow every name: write network = true for that, or "*.example.com" for the names below one`)
	}
	if name, r.Subdomains = strings.CutPrefix(name, "*."); strings.Contains(name, "*") {
		return r, errors.New(`has a "*" in the middle: it can only be the whole first part, such as "*.example.com"`)
	}
	if r.Name, err = parseName(name); err != nil {
		return r, err
	}
	switch {
	case r.Subdomains && !strings.Contains(r.Name, "."):
		return r, fmt.Errorf(`would allow every name that ends in ".%s", whoever owns it: write more of the name, such as "*.example.%s"`, r.Name, r.Name)
	case r.Subdomains && len(r.Name) > maxName-len("x."):
		return r, errors.New("is too long for a name to be below it")
	}
	return r, nil
}

var errAddress = errors.New(`is an IP address: write the name that it has, such as "db.internal:5432"; ports of this machine are for host_ports`)

func parsePorts(text string) (ports []uint16, err error) {
	for number := range strings.SplitSeq(text, ",") {
		port, err := parsePort(number)
		switch {
		case err != nil:
			return nil, err
		case port == 0:
			return nil, errors.New("has port 0, which no connection can have: write a port from 1 to 65535")
		case slices.Contains(ports, port):
			return nil, fmt.Errorf("has port %d twice: write it once", port)
		}
		ports = append(ports, port)
	}
	slices.Sort(ports)
	return ports, nil
}

func parsePort(text string) (uint16, error) {
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || text != strconv.FormatUint(port, 10) {
		return 0, fmt.Errorf("has %s where a port belongs: write a number up to 65535", quote(text))
	}
	return uint16(port), nil
}

// parseName converts a name to the form of Rule.Name.
func parseName(text string) (string, error) {
	if text == "" || text == "." {
		return "", errors.New(`has no name: write one, such as "registry.npmjs.org"`)
	}
	name, ok := Canonical(text)
	if !ok || strings.Contains(name, "_") {
		return "", errors.New(`is no name of a host, which has up to 253 characters: parts of up to 63 letters, digits and "-", with one dot between two of them; other letters need the form of DNS, such as "xn--bcher-kva.example"`)
	}
	last := ""
	for label := range strings.SplitSeq(name, ".") {
		if label[0] == '-' || label[len(label)-1] == '-' {
			return "", fmt.Errorf(`has a part that begins or ends with "-": %s`, quote(label))
		}
		last = label
	}
	if number(last) {
		return "", errAddress
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return "", errors.New("is the command's own machine: ports of this one are for host_ports")
	}
	return name, nil
}

// number reports whether programs read the last label as part of an IPv4 address ("127.1",
// "2130706433", "0x7f.1"; the URL standard's "ends in a number").
func number(label string) bool {
	digits, hex := label, strings.HasPrefix(label, "0x")
	if hex {
		digits = label[2:]
	}
	return strings.IndexFunc(digits, func(c rune) bool {
		return !(c >= '0' && c <= '9' || hex && c >= 'a' && c <= 'f')
	}) < 0
}

func letter(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' }

// naming begins an error with the text that it is about.
func naming(text string, err *error) {
	if *err != nil {
		*err = fmt.Errorf("%s %w", quote(text), *err)
	}
}

// quote shows a user's text, at most one line of it.
func quote(text string) string {
	const most = 100
	if len(text) <= most {
		return strconv.Quote(text)
	}
	return strconv.Quote(text[:most]) + "..."
}

// matches expects a name from Canonical.
func (r Rule) matches(name string) bool {
	if !r.Subdomains {
		return name == r.Name
	}
	below, ok := strings.CutSuffix(name, r.Name)
	return ok && len(below) > 1 && below[len(below)-1] == '.' && r.Name != ""
}

// Canonical converts a name from DNS, TLS or HTTP to the form of Rule.Name: lower case, no dot at
// its end. It returns false if no host can have the name. It accepts an underscore, because names
// below a wildcard can have one.
func Canonical(name string) (string, bool) {
	lower := strings.ToLower(name)
	foreign := len(lower) < len(name) // such as the Kelvin sign and the Turkish I, whose lower case is in ASCII
	if name = strings.TrimSuffix(lower, "."); foreign || name == "" || len(name) > maxName {
		return "", false
	}
	size := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.':
			if size == 0 {
				return "", false
			}
			size = 0
		case !letter(c) && c != '_' || size == maxLabel:
			return "", false
		default:
			size++
		}
	}
	return name, size > 0
}

// overlaps reports whether both rules match some name at some port.
func (r Rule) overlaps(other Rule) bool {
	names := other.Subdomains == r.Subdomains && other.Name == r.Name ||
		r.Subdomains && r.matches(other.Name) || other.Subdomains && other.matches(r.Name)
	return names && (len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(port uint16) bool { return slices.Contains(other.Ports, port) }))
}

// Rules say what a command may reach: it must be allowed by one rule and denied by none.
type Rules []Rule

// ParseRules reads all texts. Its error names each wrong one, as "network[2]".
func ParseRules(texts []string) (Rules, error) {
	var (
		rules Rules
		errs  []error
	)
	for i, text := range texts {
		r, err := ParseRule(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("network[%d]: %w", i, err))
			continue
		}
		rules = append(rules, r)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	return rules, nil
}

// A Port is one that a command may reach at a name.
type Port struct {
	Number uint16
	// Private: the name may lead to an address there that is not public.
	Private bool
}

// Ports returns the ports that a command may reach at a name, in ascending order; none if no rule
// matches. A port that several rules allow is private if one of them says so.
func (rs Rules) Ports(name string) (ports []Port) {
	name, ok := Canonical(name)
	if !ok {
		return nil
	}
	private := map[uint16]bool{}
	for _, r := range rs {
		if r.Denies || !r.matches(name) {
			continue
		}
		for _, number := range r.Ports {
			private[number] = private[number] || r.Private
		}
	}
	for _, number := range slices.Sorted(maps.Keys(private)) {
		if !rs.denies(name, number) {
			ports = append(ports, Port{number, private[number]})
		}
	}
	return ports
}

// denies expects a name from Canonical; port 0 means all of its ports.
func (rs Rules) denies(name string, port uint16) bool {
	return slices.ContainsFunc(rs, func(r Rule) bool {
		return r.Denies && r.matches(name) && (len(r.Ports) == 0 || slices.Contains(r.Ports, port))
	})
}

// Idle returns the index of a rule that denies names which no other rule allows: somebody has
// misspelled or forgotten it. It returns -1 for none.
func (rs Rules) Idle() int {
	return slices.IndexFunc(rs, func(r Rule) bool {
		return r.Denies && !slices.ContainsFunc(rs, func(other Rule) bool { return !other.Denies && r.overlaps(other) })
	})
}

// Refusal returns why a command may not reach a port of a name, or for port 0 the name at any port.
func (rs Rules) Refusal(name string, port uint16) (reason string) {
	switch canonical, _ := Canonical(name); {
	case rs.denies(canonical, port):
		return ReasonDenied
	case port != 0 && len(rs.Ports(canonical)) > 0:
		return ReasonPort(port)
	}
	return ReasonUnlisted
}

// Allow reports whether a command may reach a port of a name.
func (rs Rules) Allow(name string, port uint16) bool {
	return slices.ContainsFunc(rs.Ports(name), func(p Port) bool { return p.Number == port })
}
