package stubs

import (
	"fmt"
	"strconv"
	"strings"
)

// A record is one stub as a ledger has it. With a zero inode it is about to be
// made.
type record struct {
	path    string
	content string // of a file
	dir     bool
	dev     uint64
	ino     uint64
}

// The lines of a ledger, appended and never changed:
//
//	d DEV INODE "PATH"             a directory
//	f DEV INODE "PATH" "CONTENT"   a file
//	- 0 0 "PATH"                   given up
//
// A line without its end was not written to the end, and nothing was done yet
// of what it says.
func (r *record) line() string {
	if r.dir {
		return fmt.Sprintf("d %d %d %q\n", r.dev, r.ino, r.path)
	}
	return fmt.Sprintf("f %d %d %q %q\n", r.dev, r.ino, r.path, r.content)
}

func gone(path string) string { return fmt.Sprintf("- 0 0 %q\n", path) }

// parse reads a ledger. What makes no sense is passed over: it was not written
// by this program, which then has nothing to clean up for it.
func parse(text string) map[string]record {
	records := map[string]record{}
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) != 4 {
			continue
		}
		var r record
		var errs [3]error
		r.dev, errs[0] = strconv.ParseUint(fields[1], 10, 64)
		r.ino, errs[1] = strconv.ParseUint(fields[2], 10, 64)
		quoted, errPath := strconv.QuotedPrefix(fields[3])
		if errs[0] != nil || errs[1] != nil || errPath != nil {
			continue
		}
		rest := strings.TrimPrefix(fields[3][len(quoted):], " ")
		r.path, errs[2] = strconv.Unquote(quoted)
		if errs[2] != nil || !strings.HasPrefix(r.path, "/") {
			continue
		}
		switch fields[0] {
		case "-":
			delete(records, r.path)
			continue
		case "d":
			r.dir = true
		case "f":
			content, err := strconv.Unquote(rest)
			if err != nil {
				continue
			}
			r.content = content
		default:
			continue
		}
		records[r.path] = r
	}
	return records
}
