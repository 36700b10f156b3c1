package egress

import (
	"fmt"
	"strconv"
	"time"
)

// ReasonUnlisted is the reason of a Decision about a name or an address that no rule allows.
const ReasonUnlisted = "no rule allows it"

// ReasonDenied is the reason of a Decision about a name that a rule denies. Other rules do not
// matter then.
const ReasonDenied = `a rule with "!" denies it`

// ReasonPort is the reason of a Decision about a port of a name for which rules allow other ports
// only.
func ReasonPort(port uint16) string { return fmt.Sprintf("port %d is not in the rule", port) }

// OfSession is the Source of a Decision if commands share a gate, which cannot distinguish them.
const OfSession = "a command of this session"

// A Decision is about a name that a command asked for, or about connections that have ended.
type Decision struct {
	// Name is the requested name, or the address if the command dialled one that stands for no
	// name. "localhost" means a port of the host.
	Name    string
	Source  string // OfSession, or empty: the command that gets the report
	Port    uint16 // 0 if unknown: the gate refused the name before a connection
	Allowed bool
	Reason  string // why it was refused, or why an allowed connection failed; for people
	Address string // the dialled one
	// Connections counts the connections; 1 for a refusal or a failure.
	Connections uint64
	// Sent and Received are total bytes, as the command sees them; Duration is the total time.
	Sent, Received uint64
	Duration       time.Duration
}

// Target returns the name and the port.
func (d *Decision) Target() string {
	if d.Port == 0 {
		return d.Name
	}
	return d.Name + ":" + strconv.Itoa(int(d.Port))
}

// SourceNote returns the text after the target if the command is uncertain: " (a command of this
// session)".
func (d *Decision) SourceNote() string {
	if d.Source == "" {
		return ""
	}
	return " (" + d.Source + ")"
}

// String returns one sentence.
func (d *Decision) String() string {
	switch {
	case !d.Allowed:
		return fmt.Sprintf("network: refused %s%s: %s", d.Target(), d.SourceNote(), d.Reason)
	case d.Reason != "":
		return fmt.Sprintf("network: could not reach %s%s: %s", d.Target(), d.SourceNote(), d.Reason)
	}
	return fmt.Sprintf("network: reached %s%s (%s): %d connections, %d bytes sent, %d received, %v", d.Target(), d.SourceNote(), d.Address, d.Connections, d.Sent, d.Received, d.Duration.Round(time.Millisecond))
}

// Details returns the decision in the form of an engine's event.
func (d *Decision) Details() map[string]string {
	m := map[string]string{"name": d.Name, "port": strconv.Itoa(int(d.Port)), "allowed": strconv.FormatBool(d.Allowed),
		"connections": strconv.FormatUint(d.Connections, 10)}
	for key, text := range map[string]string{"reason": d.Reason, "address": d.Address, "by": d.Source} {
		if text != "" {
			m[key] = text
		}
	}
	if d.Allowed {
		m["sent"], m["received"] = strconv.FormatUint(d.Sent, 10), strconv.FormatUint(d.Received, 10)
		m["duration_ns"] = strconv.FormatInt(int64(d.Duration), 10)
	}
	return m
}

// ParseDecision reads [Decision.Details]. Invalid fields become zero.
func ParseDecision(m map[string]string) (d Decision) {
	d.Name, d.Reason, d.Address, d.Source = m["name"], m["reason"], m["address"], m["by"]
	port, _ := strconv.ParseUint(m["port"], 10, 16)
	d.Port = uint16(port)
	d.Allowed, _ = strconv.ParseBool(m["allowed"])
	d.Connections, _ = strconv.ParseUint(m["connections"], 10, 64)
	d.Sent, _ = strconv.ParseUint(m["sent"], 10, 64)
	d.Received, _ = strconv.ParseUint(m["received"], 10, 64)
	duration, _ := strconv.ParseInt(m["duration_ns"], 10, 64)
	d.Duration = time.Duration(duration)
	return d
}
