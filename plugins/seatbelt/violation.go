package seatbelt

import (
	"encoding/json"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
)

// violation is one denial that the kernel has written to the system's log.
type violation struct {
	process   string
	pid       int
	operation string // "file-read-data"
	target    string // a path, a service, an address; "" where the kernel names none
	tag       string
}

// parseLog reads one line of `log stream --style ndjson`.
func parseLog(line []byte) (violation, bool) {
	var entry struct {
		EventMessage    string `json:"eventMessage"`
		SenderImagePath string `json:"senderImagePath"`
	}
	if json.Unmarshal(line, &entry) != nil || path.Base(entry.SenderImagePath) != "Sandbox" {
		return violation{}, false // what another program logs is its own claim
	}
	return parseMessage(entry.EventMessage)
}

// parseMessage reads what the kernel's extension says of a denial, and the tag,
// which is the last line:
//
//	Sandbox: cat(123) deny(1) file-read-data /path
//	2 duplicate reports for Sandbox: cat(123) deny(1) file-read-data /path
//	Sandbox: 1 duplicate report for cat deny(1) file-read-data /path
//
// A path may hold spaces and line ends. A process name, which programs choose,
// may look like anything, so that its end is the number before the verdict.
func parseMessage(message string) (v violation, ok bool) {
	end := strings.LastIndexByte(message, '\n')
	if end < 0 {
		return v, false
	}
	rest := withoutCount(message[:end])
	v.tag = strings.TrimSpace(message[end+1:])
	if rest, ok = strings.CutPrefix(rest, "Sandbox: "); !ok {
		return v, false
	}
	who, what, found := strings.Cut(withoutCount(rest), "deny(")
	if !found || strings.HasSuffix(who, " System Policy: ") { // what SIP denies is no profile's doing
		return v, false
	}
	v.process = strings.TrimSuffix(who, " ")
	if i := strings.LastIndexByte(v.process, '('); i > 0 && strings.HasSuffix(v.process, ")") {
		if pid, err := strconv.Atoi(v.process[i+1 : len(v.process)-1]); err == nil {
			v.process, v.pid = v.process[:i], pid
		}
	}
	level, what, found := strings.Cut(what, ") ")
	if _, err := strconv.Atoi(level); err != nil || !found {
		return v, false
	}
	v.operation, v.target, _ = strings.Cut(what, " ")
	return v, v.operation != ""
}

// withoutCount takes away how often a denial was repeated, which is told once
// and in either of two places.
func withoutCount(s string) string {
	count, after, found := strings.Cut(s, " duplicate report")
	if _, err := strconv.Atoi(count); !found || err != nil {
		return s
	}
	if _, after, found = strings.Cut(after, "for "); !found {
		return s
	}
	return after
}

// event tells a violation and what would allow it.
func (v violation) event(p *policy) shared.Event {
	attribute, advice := v.remedy(p)
	message := fmt.Sprintf("%s was denied %s", quote(v.process), quote(v.operation))
	if v.target != "" {
		message += " of " + quote(v.target)
	}
	message += ": " + advice
	details := map[string]string{"operation": v.operation, "path": v.target, "process": v.process, "attribute": attribute}
	if v.pid > 0 {
		details["pid"] = strconv.Itoa(v.pid)
	}
	return shared.Event{Kind: shared.EventViolation, Message: message, Details: details}
}

// remedy says which attribute would allow what was denied; "" where none would.
func (v violation) remedy(p *policy) (attribute, advice string) {
	switch {
	case strings.HasPrefix(v.operation, "network"), v.operation == "system-socket":
		if strings.HasPrefix(v.target, "/") {
			return "", "sockets in the file system are closed but for the command's own temporary directory"
		}
		if p.spec.Network.Mode == shared.NetworkNone {
			return "network", "network = true would allow it"
		}
		if p.spec.Network.Mode == shared.NetworkNames {
			return "network", "listed names are reached by the proxy alone that HTTP_PROXY and ALL_PROXY name"
		}
	case strings.HasPrefix(v.operation, "file-"), strings.HasPrefix(v.operation, "process-exec"):
		if strings.HasPrefix(v.target, "/") {
			return v.fileRemedy(p)
		}
	}
	return "", "no attribute allows it"
}

func (v violation) fileRemedy(p *policy) (attribute, advice string) {
	switch v.operation {
	case "file-link", "file-clone", "file-write-setugid", "file-mknod", "file-ioctl":
		return "", "no attribute allows it"
	}
	writes := strings.HasPrefix(v.operation, "file-write")
	for _, c := range p.hidden {
		if c.matches(v.target) {
			return attributeOf(c.origin), c.origin + " hides it"
		}
	}
	if writes {
		for _, c := range p.protected {
			if c.matches(v.target) {
				return attributeOf(c.origin), c.origin + " keeps it as it is"
			}
		}
		for _, c := range p.obeyed {
			if c.matches(v.target) {
				return "", "macOS obeys what is there, so that no attribute allows it"
			}
		}
	}
	deepest, ok := p.areaAt(v.target)
	switch {
	case !ok:
		return "bind_paths", "an entry in bind_paths would show it"
	case writes && !deepest.writable && deepest.origin == "workspace":
		return "read_only", "read_only = false would let it be written"
	case writes && !deepest.writable:
		return deepest.origin, deepest.origin + " is read-only"
	case writes:
		return "", "it has to stay in its place, or the rules about what it holds would lose it"
	}
	return "", "no attribute allows it"
}

// attributeOf gives the attribute of `deny_paths "**/.env"`.
func attributeOf(origin string) string {
	attribute, _, _ := strings.Cut(origin, " ")
	return attribute
}
