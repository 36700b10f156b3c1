package audit

import (
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sbxhost/sbxhost/internal/hostpath"
)

// Event says what a line is about.
type Event string

const (
	// EventDecision is written before a command runs, or instead of its run.
	EventDecision Event = "decision"
	// EventEnd is written once a command that ran has ended.
	EventEnd Event = "end"
	// EventSession is written when a session's processes have ended: it has the Network that they
	// used after the ends of their commands, as far as no line of a later command has it.
	EventSession Event = "session"
)

// Record is one line. Fields may be added; Version changes when one changes its
// meaning.
type Record struct {
	Version int       `json:"version"` // 1
	Time    time.Time `json:"time"`    // zero: when the line is written
	Event   Event     `json:"event"`
	// Command identifies the command: all its lines have this value, and no other line has it.
	Command string `json:"command"`
	PID     int    `json:"pid"` // of the host
	UID     int    `json:"uid"`

	Sandbox   string   `json:"sandbox"`
	Engine    string   `json:"engine"`                   // as it calls itself
	Program   *Program `json:"engine_program,omitempty"` // nil: the host's own
	Workspace string   `json:"workspace"`

	// For EventDecision.
	Dir      string   `json:"dir,omitempty"`
	Argv     []string `json:"argv,omitempty"`
	Script   string   `json:"script,omitempty"`
	Decision string   `json:"decision,omitempty"` // "sandboxed", "unsandboxed" or "denied"
	Rule     string   `json:"rule,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	// Raw has all arguments, in base64, if one of them is not UTF-8. Argv then shows them with
	// replacement characters.
	Raw [][]byte `json:"argv_base64,omitempty"`
	// RawScript and RawDir are the script and the directory, each if it is not UTF-8.
	RawScript []byte `json:"script_base64,omitempty"`
	RawDir    []byte `json:"dir_base64,omitempty"`
	// Shortened says that the record has only a part of the arguments or of the script.
	Shortened bool `json:"shortened,omitempty"`

	// For EventEnd.
	Outcome    string `json:"outcome,omitempty"` // "exited", "signaled", "timed_out" or "failed"
	ExitCode   *int   `json:"exit_code,omitempty"`
	Signal     int    `json:"signal,omitempty"`
	DurationMS *int64 `json:"duration_ms,omitempty"` // of a command that ran; 0 is less than a millisecond
	Error      string `json:"error,omitempty"`
	// Status is set with Error. It is the exit status of sbxhost exec: 127 for a missing command,
	// 126 for one that cannot be executed, 125 for a sandbox that failed.
	Status int `json:"status,omitempty"`
	// Network lists the connections of the command, made and refused, if its definition lists names
	// or ports. EventSession also has it.
	Network []NetworkUse `json:"network,omitempty"`
}

// NetworkUse is all of a command's connections to one name and port with one outcome.
type NetworkUse struct {
	Name        string `json:"name"`           // empty for all further ones
	Port        uint16 `json:"port,omitempty"` // 0 for a name that was not resolved
	By          string `json:"by,omitempty"`   // whose connection it is, if it may be another command's: "a command of this session"
	Allowed     bool   `json:"allowed"`
	Reason      string `json:"reason,omitempty"` // why it was refused, or why an allowed one failed
	Connections uint64 `json:"connections"`      // for a refused name, the questions for it
	Sent        uint64 `json:"sent"`             // bytes, from the command
	Received    uint64 `json:"received"`         // bytes, to the command
	DurationMS  int64  `json:"duration_ms"`      // of all together
}

// maxNetworkUses bounds the list of one command, which chooses the names.
const maxNetworkUses = 200

// AddNetworkUse adds one to a list in which each outcome is once. Past about 200, those with the
// same By and Allowed are one.
func AddNetworkUse(list []NetworkUse, u NetworkUse) []NetworkUse {
	same := func(of NetworkUse) bool {
		return of.Name == u.Name && of.Port == u.Port && of.By == u.By && of.Allowed == u.Allowed && of.Reason == u.Reason
	}
	i := slices.IndexFunc(list, same)
	if i < 0 && len(list) >= maxNetworkUses-2 {
		u.Name, u.Port, u.Reason = "", 0, ""
		i = slices.IndexFunc(list, same)
	}
	if i < 0 {
		return append(list, u)
	}
	sum := &list[i]
	sum.Connections += u.Connections
	sum.Sent += u.Sent
	sum.Received += u.Received
	sum.DurationMS += u.DurationMS
	return list
}

// Program is the executable of an engine.
type Program struct {
	Name   string `json:"name"` // by which definitions call the engine
	Path   string `json:"path"`
	SHA256 string `json:"sha256,omitempty"`
}

// maxText bounds what a line holds of arguments, of a script, and of an error
// each, so that one command cannot make the log turn over.
const maxText = 16 << 10

// Line is the record as it is written, with its newline.
func (r Record) Line() []byte {
	r.Version = 1
	r.Time = r.Time.UTC()
	if left, short := shorten(r.Argv); short {
		r.Argv, r.Shortened = left, true
	}
	for _, text := range []*string{&r.Script, &r.Reason, &r.Error} {
		if len(*text) > maxText {
			*text, r.Shortened = cut(*text, maxText), true
		}
	}
	if !utf8.ValidString(r.Script) {
		r.RawScript = []byte(r.Script)
	}
	if !utf8.ValidString(r.Dir) {
		r.RawDir = []byte(r.Dir)
	}
	if slices.ContainsFunc(r.Argv, func(arg string) bool { return !utf8.ValidString(arg) }) {
		for _, arg := range r.Argv {
			r.Raw = append(r.Raw, []byte(arg))
		}
	}
	text, _ := json.Marshal(r) // fails only in a year beyond 9999
	printable := func(r rune) bool { return r >= ' ' && r < 0x7f }
	return []byte(hostpath.EscapeJSON(string(text), printable) + "\n")
}

// cut gives the beginning of a text, and no part of a character at its end.
func cut(s string, n int) string {
	for back := range min(utf8.UTFMax, n+1) {
		if utf8.RuneStart(s[n-back]) {
			return s[:n-back]
		}
	}
	return s[:n] // no text at all
}

func shorten(argv []string) ([]string, bool) {
	left := maxText
	for i, arg := range argv {
		if len(arg) > left {
			return append(argv[:i:i], cut(arg, left)), true
		}
		left -= len(arg) + 1
		if left <= 0 && i+1 < len(argv) {
			return argv[: i+1 : i+1], true
		}
	}
	return argv, false
}
