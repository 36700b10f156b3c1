package egress

import (
	"encoding/json"
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
	Name    string `json:"name"`
	Source  string `json:"by,omitempty"` // OfSession, or empty: the command that gets the report
	Port    uint16 `json:"port,string"`  // 0 if unknown: the gate refused the name before a connection
	Allowed bool   `json:"allowed,string"`
	Reason  string `json:"reason,omitempty"`  // why it was refused, or why an allowed connection failed; for people
	Address string `json:"address,omitempty"` // the dialled one
	// Connections counts the connections; 1 for a refusal or a failure.
	Connections uint64 `json:"connections,string"`
	// Sent and Received are total bytes, as the command sees them; Duration is the total time.
	Sent     uint64        `json:"sent,string,omitempty"`
	Received uint64        `json:"received,string,omitempty"`
	Duration time.Duration `json:"duration_ns,string,omitempty"`
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
func (d *Decision) Details() (details map[string]string) {
	text, _ := json.Marshal(d) // texts and numbers always encode
	_ = json.Unmarshal(text, &details)
	return details
}

// ParseDecision reads [Decision.Details]. An invalid field becomes zero, and so may others.
func ParseDecision(details map[string]string) (d Decision) {
	text, _ := json.Marshal(details)
	_ = json.Unmarshal(text, &d)
	return d
}
