package egress

import (
	"fmt"
	"strconv"
	"time"
)

// ReasonUnlisted is the reason of a Decision about a name, or an address, that no rule has.
const ReasonUnlisted = "no rule allows it"

// ReasonDenied is the reason of a Decision about a name that a rule denies, whatever others allow.
const ReasonDenied = `a rule with "!" denies it`

// ReasonPort is the reason of a Decision about a port of a name that other rules have.
func ReasonPort(port uint16) string { return fmt.Sprintf("port %d is not in the rule", port) }

// OfSession is who a Decision is about where commands share a gate, which cannot tell them apart.
const OfSession = "a command of this session"

// A Decision is about a name that was asked for, or about connections that have ended.
type Decision struct {
	// Name is what was asked for: a name, or an address where a command has dialled one that
	// no name has. "localhost" is a port of the host's.
	Name    string
	Source  string // OfSession, or empty: the command that is told of it
	Port    uint16 // 0 where it is not known: a name was refused before a connection could be made
	Allowed bool
	Reason  string // why not, or why what is allowed did not work; for people
	Address string // the one that was dialled
	// Connections is how many it is about; 1 where something was refused or did not work.
	Connections uint64
	// Sent and Received are bytes, as the command sees it, and Duration the time, of all.
	Sent, Received uint64
	Duration       time.Duration
}

// Target is the name and the port.
func (d *Decision) Target() string {
	if d.Port == 0 {
		return d.Name
	}
	return d.Name + ":" + strconv.Itoa(int(d.Port))
}

// SourceNote is what follows the target where that is not known to be the command's: " (a command of
// this session)".
func (d *Decision) SourceNote() string {
	if d.Source == "" {
		return ""
	}
	return " (" + d.Source + ")"
}

// String is one sentence.
func (d *Decision) String() string {
	switch {
	case !d.Allowed:
		return fmt.Sprintf("network: refused %s%s: %s", d.Target(), d.SourceNote(), d.Reason)
	case d.Reason != "":
		return fmt.Sprintf("network: could not reach %s%s: %s", d.Target(), d.SourceNote(), d.Reason)
	}
	return fmt.Sprintf("network: reached %s%s (%s): %d connections, %d bytes sent, %d received, %v", d.Target(), d.SourceNote(), d.Address, d.Connections, d.Sent, d.Received, d.Duration.Round(time.Millisecond))
}

// Details are the decision as an engine's event carries it.
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

// ParseDecision reads [Decision.Details]. What makes no sense is zero.
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
