package denial

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/egress"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// A Denial is something that a sandbox refused to its command.
type Denial struct {
	Path      string `json:"path"`      // as the command sees it; empty if it is not about a path
	Host      string `json:"host"`      // name or address, with the port; empty if it is not about one
	Operation string `json:"operation"` // "read", "write", "execute", "connect", "call" or "use"; an engine may report others
	Reason    string `json:"reason"`    // one sentence for people
	// Attribute is the attribute of the definition that causes the denial; empty for none.
	Attribute string `json:"attribute"`
	// At is FILE:LINE of that attribute, if the reader of the configuration has set it.
	At string `json:"at"`
	// Value is the value, in HCL, with which that attribute would allow it: "true", `"/data"`. It
	// is empty if there is no proposal.
	Value string `json:"-"`
	// Element says that Attribute is a list, and that Value is one more element of it.
	Element bool `json:"-"`
	// Change is the change of the definition that Value proposes, for people. A change that gives up a
	// protection has no Value: nobody should add it unread.
	Change string `json:"change"`
	// Guess says that the denial comes from the command's own words, and not from an observation:
	// the sandbox does deny this, but perhaps the command failed for another reason.
	Guess bool `json:"guess"`
	// more is how many further denials it stands for; see Add.
	more int
}

// change returns the change that would allow it, in a form that a definition takes.
func (f *Failure) change(d *Denial) string {
	switch {
	case d.Value == "":
		return ""
	case d.Attribute == "network" && f.Spec.Network.Mode == shared.NetworkNone:
		return "network = [" + d.Value + "]"
	case d.Element:
		return "add " + d.Value + " to " + d.Attribute
	}
	if block, name, ok := strings.Cut(d.Attribute, "."); ok && !strings.Contains(block, "[") {
		return fmt.Sprintf("%s { %s = %s }", block, name, d.Value)
	}
	return d.Attribute + " = " + d.Value
}

// A Failure is a command that did not succeed, and the known facts about it.
type Failure struct {
	Sandbox  string // its name
	Spec     *shared.Spec
	Command  shared.Command
	NotFound bool // the command was not found
	// Succeeded says that the command did not fail: it was traced, or LeavesFiles is true of it.
	Succeeded bool
	Stderr    []byte // the beginning and the end of its standard error
	// Traced are its failed calls, the latest first.
	Traced        []shared.TracedCall
	Network       []audit.NetworkUse
	EngineDenials []Denial // from its engine
	// Option reports whether the definition may set an option of its engine, and does not.
	Option func(name string) bool
	// ByPermission says that the engine makes the kernel refuse a write as a file's mode would.
	// Other engines use a read-only file system.
	ByPermission bool
	Machine      Machine
	lines        []line // of commands
}

// Machine answers a Failure's questions about the machine.
type Machine interface {
	// Follow walks along a path of the host.
	Follow(path string) view.Way
	// Program returns the path of a program in the caller's PATH, or name itself if that is an
	// absolute path of one; "" for none.
	Program(name string) string
	// Interpreter returns the program that the first line of a script names after "#!"; "" for none.
	Interpreter(path string) string
	// Dropped says why a directory of the caller's PATH is missing from the command's; "" if it is
	// not missing, or if the reason is unknown.
	Dropped(dir string) string
	// Listens reports whether a process listens on a port of the host's loopback.
	Listens(port uint16) bool
	// Variable reports whether the caller has a variable that the command did not get.
	Variable(name string) bool
	// Stub reports whether a host path exists only while the command runs, so that the command does
	// not create it.
	Stub(path string) bool
	// WhyNotProposed says why no proposal may open a path: it can contain credentials, or gives a
	// way out of the sandbox. It is "" for every other path.
	WhyNotProposed(path string) string
}

// maxDenials is how many denials the package reports for one command.
const maxDenials = 32

// Add adds to a command's list of denials. If the list is full, its last element counts the rest.
func Add(list []Denial, d Denial) []Denial {
	if len(list) < maxDenials {
		return append(list, d)
	}
	last := &list[maxDenials-1]
	more := max(last.more, 1) + 1
	*last = Denial{Operation: "use", Reason: fmt.Sprintf("%d further denials are not listed", more), Guess: d.Guess, more: more}
	return list
}

// Denials returns the known denials, the certain ones first.
func (f *Failure) Denials() []Denial {
	list := slices.Clone(f.EngineDenials)
	add := func(guesses bool, more ...Denial) {
		for _, d := range more {
			if d.Reason != "" && !slices.ContainsFunc(list, func(have Denial) bool { return sameDenial(&have, &d) }) {
				d.Change = cmp.Or(d.Change, f.change(&d))
				d.Guess = d.Guess || guesses
				list = append(list, d)
			}
		}
	}
	add(false, f.refusedNames()...)
	if f.NotFound {
		add(false, f.program(f.Command.Args[0]))
	} else {
		add(true, f.complaints()...) // a line can say anything
		if !f.Succeeded && len(list) == len(f.EngineDenials) {
			add(true, f.fromArguments())
		}
	}
	add(true, f.traced()...) // perhaps a call failed for another reason
	list = withoutVague(list)
	var sorted []Denial
	for _, guesses := range [...]bool{false, true} {
		for _, d := range list {
			if d.Guess == guesses {
				sorted = Add(sorted, d)
			}
		}
	}
	return sorted
}

// sameDenial reports whether the second denial says nothing new.
func sameDenial(have, d *Denial) bool {
	if d.Attribute == "network" && have.Attribute == "network" && d.Value != "" && d.Value == have.Value {
		return true
	}
	return have.Path == d.Path && have.Host == d.Host && (have.Attribute == d.Attribute || d.Path != "")
}

// refusedNames returns the denials from the network gate. They are guesses only if several commands
// share a network.
func (f *Failure) refusedNames() (list []Denial) {
	for _, u := range f.Network {
		if !u.Allowed && u.Name != "" {
			d := refusedName(egress.Decision{Name: u.Name, Port: u.Port, Source: u.By}, u.Reason)
			switch {
			case ofPrivate(u.Reason):
				d.Value = f.private(u.Name)
			case u.Port == 0 && u.Reason == egress.ReasonUnlisted: // refused at the lookup
				d.Value = rule(u.Name, f.portOf(u.Name, ""))
			}
			d.Guess = u.By != "" // another command may have asked
			list = append(list, d)
		}
	}
	return list
}

func refusedName(d egress.Decision, reason string) Denial {
	if _, err := netip.ParseAddr(strings.Trim(d.Name, `"[]`)); err == nil && reason == egress.ReasonUnlisted {
		reason = "it is an address, and rules are names"
	}
	denied := Denial{Host: d.Target(), Operation: "connect", Attribute: "network", Reason: fmt.Sprintf("refused %s%s: %s", d.Target(), d.SourceNote(), reason), Element: true}
	switch {
	case reason == egress.ReasonUnlisted:
		denied.Value = rule(d.Name, d.Port)
	case reason == egress.ReasonPort(d.Port):
		denied.Value = rule(d.Target(), 0)
	}
	return denied
}

// rule returns the smallest element of network that allows a name and port; "" for none. A rule
// without a port allows HTTP and HTTPS.
func rule(name string, port uint16) string {
	if port != 0 && port != 80 && port != 443 {
		name = (&egress.Decision{Name: name, Port: port}).Target()
	}
	if _, err := egress.ParseRule(name); err != nil || !strings.ContainsAny(name, ".:") {
		return ""
	}
	return text(name)
}

// private returns an element of network that lets an allowed name lead to a private address.
func (f *Failure) private(name string) string {
	colon := ":"
	if ports := f.rules().Ports(name); len(ports) != 2 || ports[0].Number != 80 || ports[1].Number != 443 {
		for _, port := range ports {
			name, colon = name+colon+strconv.Itoa(int(port.Number)), ","
		}
	}
	return text(name + " private")
}

// ofPrivate reports whether the gate refused an address only because the word private is missing.
func ofPrivate(reason string) bool {
	addr, _, _ := strings.Cut(reason, " ")
	ip, err := netip.ParseAddr(addr)
	return err == nil && egress.CheckAddress(ip, true, nil) == nil
}

// withoutVague drops guesses about the network that say less than others.
func withoutVague(list []Denial) []Denial {
	for _, better := range [...]func(d *Denial) bool{
		func(d *Denial) bool { return !d.Guess || d.Value != "" },
		func(d *Denial) bool { return d.Host != "" },
	} {
		if slices.ContainsFunc(list, func(d Denial) bool { return d.Attribute == "network" && better(&d) }) {
			return slices.DeleteFunc(list, func(d Denial) bool { return d.Attribute == "network" && !better(&d) })
		}
	}
	return list
}

// rules are the names of the definition, which its reader has checked.
func (f *Failure) rules() egress.Rules {
	rules, _ := egress.ParseRules(f.Spec.Network.Names)
	return rules
}

// unlisted is about a name that the command named but did not try to reach.
func (f *Failure) unlisted(name string, port uint16) Denial {
	if canonical, ok := egress.Canonical(name); ok {
		name = canonical
	}
	rules := f.rules()
	if rules.Allow(name, port) {
		return Denial{}
	}
	return refusedName(egress.Decision{Name: name, Port: port}, rules.Refusal(name, port))
}

// otherPort is about a port of a name for which rules allow other ports. Not every gate sees such
// an attempt.
func (f *Failure) otherPort(name string, port uint16) Denial {
	canonical, ok := egress.Canonical(name)
	if !ok || f.Spec.Network.Mode != shared.NetworkNames || len(f.rules().Ports(canonical)) == 0 {
		return Denial{}
	}
	return f.unlisted(canonical, port)
}

// noNetwork is about a command without a network; host is "" if the command's target is unknown. It
// proposes neither addresses, which a definition does not list, nor the whole network, which is
// never the smallest change.
func (f *Failure) noNetwork(host string, port uint16) Denial {
	if f.Spec.Network.Mode != shared.NetworkNone {
		return Denial{}
	}
	d := Denial{Host: host, Operation: "connect", Attribute: "network"}
	d.Reason = fmt.Sprintf("sandbox %q has no network", f.Sandbox)
	if host != "" {
		d.Value, d.Element = rule(host, port), true
		d.Reason += ", and the command looked for " + hostpath.Line(host)
	}
	return d
}

// hostPort is about a port that the command found closed on its own loopback, and that the host's
// loopback has.
func (f *Failure) hostPort(port uint16) Denial {
	n := &f.Spec.Network
	if n.Mode == shared.NetworkHost || port == 0 || slices.Contains(n.HostPorts, port) || !f.Machine.Listens(port) {
		return Denial{}
	}
	return Denial{
		Host: "localhost:" + strconv.Itoa(int(port)), Operation: "connect", Attribute: "host_ports", Value: strconv.Itoa(int(port)), Element: true,
		Reason: fmt.Sprintf("port %d of this machine's loopback is not reached from sandbox %q, which has a loopback of its own", port, f.Sandbox),
	}
}

// program is about a program that the command did not find.
func (f *Failure) program(name string) Denial {
	if strings.Contains(name, "/") && !path.IsAbs(name) {
		return f.interpreter(path.Join(f.Command.Dir, name)) // the workspace itself shows
	}
	p := f.Machine.Program(name)
	if p == "" {
		if path.IsAbs(name) { // by the path that the command has for it
			return f.interpreter(name)
		}
		return Denial{}
	}
	d := Denial{Path: p, Operation: "execute", Attribute: "bind_paths"}
	if !strings.Contains(name, "/") {
		if why := f.Machine.Dropped(path.Dir(p)); why != "" {
			d.Attribute, d.Reason = "env", why
			return d
		}
	}
	if view.Shows(f.Spec, p) != "" {
		return f.interpreter(p)
	}
	d.Reason = fmt.Sprintf("%s of this machine is not shown in sandbox %q", hostpath.Quote(p), f.Sandbox)
	if f.Machine.WhyNotProposed(p) == "" {
		d.Value, d.Element = text(p), true
		if p != name { // PATH has directories
			d.Value = text(path.Dir(p))
		}
	}
	return d
}

// interpreter is about the program that runs a script: where the command does not find that, the kernel says that it
// does not find the script.
func (f *Failure) interpreter(script string) Denial {
	_, host := shared.Cover(f.Spec.Table, script)
	if host == "" {
		host = script
	}
	if way := f.Machine.Follow(host); !path.IsAbs(host) || way.Err != nil || way.Kind != view.File || len(way.Links) > 0 {
		return Denial{}
	}
	program := f.Machine.Interpreter(host)
	if program == "" {
		return Denial{}
	}
	d := f.unseenPath(program)
	d.Operation = "execute"
	return d
}

// limit is about a limit that the command may have reached. form writes a number in HCL.
func (f *Failure) limit(name string, bound uint64, form func(uint64) string) Denial {
	if bound == 0 {
		return Denial{}
	}
	attribute := "limits." + name
	return Denial{Operation: "use", Attribute: attribute, Value: form(2 * bound),
		Reason: fmt.Sprintf("sandbox %q has %s, which the command seems to have reached", f.Sandbox, attribute)}
}

// option is about a system call that an option of the engine would allow.
func (f *Failure) option(name, what string) Denial {
	if !f.Option(name) {
		return Denial{}
	}
	return Denial{Operation: "call", Attribute: "config." + name, Value: "true",
		Reason: fmt.Sprintf("sandbox %q refuses %s", f.Sandbox, what)}
}

// text returns s as an HCL string.
func text(s string) string {
	s = strconv.Quote(hostpath.Line(s))
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(s)
}

func count(n uint64) string { return strconv.FormatUint(n, 10) }

// size returns a number of bytes in the form that a definition uses.
func size(n uint64) string { return strconv.Quote(view.SizeText(n)) }

// FromEvent makes a denial from an engine's violation event.
func FromEvent(e *shared.Event) Denial {
	d := Denial{Operation: e.Details["operation"], Attribute: e.Details["attribute"], Reason: e.Message}
	if limit := e.Details["limit"]; limit != "" {
		d.Operation, d.Attribute = "use", "limits."+limit
	}
	if target := e.Details["path"]; path.IsAbs(target) {
		d.Path = target
	} else {
		d.Host = target
	}
	return d
}
