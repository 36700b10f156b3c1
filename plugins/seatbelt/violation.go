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

// parseMessage reads "Sandbox: cat(123) deny(1) file-read-data /path" and the
// tag, which is the last line. A path may hold spaces and line ends; a process
// name, which programs choose, may look like anything, so it is read from behind.
func parseMessage(message string) (v violation, ok bool) {
	rest, ok := strings.CutPrefix(message, "Sandbox: ")
	if !ok {
		return v, false
	}
	end := strings.LastIndexByte(rest, '\n')
	if end < 0 {
		return v, false
	}
	rest, v.tag = rest[:end], strings.TrimSpace(rest[end+1:])
	// Repetitions are told once: "2 duplicate reports for cat deny(1) ...".
	if count, after, found := strings.Cut(rest, " duplicate reports for "); found {
		if _, err := strconv.Atoi(count); err == nil {
			rest = after
		}
	}
	who, what, found := strings.Cut(rest, " deny(")
	if !found {
		return v, false
	}
	v.process = who
	if i := strings.LastIndexByte(who, '('); i > 0 && strings.HasSuffix(who, ")") {
		if pid, err := strconv.Atoi(who[i+1 : len(who)-1]); err == nil {
			v.process, v.pid = who[:i], pid
		}
	}
	level, what, found := strings.Cut(what, ") ")
	if _, err := strconv.Atoi(level); err != nil || !found {
		return v, false
	}
	v.operation, v.target, _ = strings.Cut(what, " ")
	return v, v.operation != ""
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
	for _, c := range p.denied {
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
		for _, c := range p.kept {
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
