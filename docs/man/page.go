package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// page makes the manual page of the help texts, one file a command.
func page(help fs.FS) ([]byte, error) {
	names, err := fs.Glob(help, "*.txt")
	if err != nil {
		return nil, err
	}
	command := func(file string) string {
		return strings.ReplaceAll(strings.TrimSuffix(file, ".txt"), "-", " ")
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(command(a), command(b)) })
	text, err := fs.ReadFile(help, top)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(".\\\" Written by go run ./docs/man from the help texts. Do not edit.\n")
	b.WriteString(".TH SBXHOST 1 \"\" sbxhost \"User Commands\"\n")
	b.WriteString(".SH NAME\nsbxhost \\- run commands in a fresh, lightweight sandbox each\n")
	write(&b, string(text), ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH")
	b.WriteString(".SH SUBCOMMANDS\n")
	for _, name := range names {
		if name == top {
			continue
		}
		text, err := fs.ReadFile(help, name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, ".SS sbxhost %s\n", escape(command(name)))
		write(&b, string(text), "", "", ".PP")
	}
	b.WriteString(tail)
	return b.Bytes(), nil
}

// top is the help of sbxhost itself.
const top = "sbxhost.txt"

//go:embed tail.roff
var tail string

// write turns one help text into roff. Its form is that of all of them: lines of
// usage first; paragraphs from the margin, of which one that ends in a colon and
// has no other line is the heading of what follows; indented lines, which are
// laid out by hand.
func write(b *bytes.Buffer, text, usageHeading, proseHeading, heading string) {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	b.WriteString(usageHeading)
	literal(b, strings.Split(strings.ReplaceAll(strings.Replace(paragraphs[0], "Usage: ", "", 1), "\n       ", "\n"), "\n"))
	b.WriteString(proseHeading)
	for _, p := range paragraphs[1:] {
		lines := strings.Split(p, "\n")
		first := lines[0]
		switch {
		case strings.HasSuffix(first, ":") && len(lines) > 1 && strings.HasPrefix(lines[1], " "):
			title := strings.TrimSuffix(first, ":")
			if heading == ".SH" {
				fmt.Fprintf(b, ".SH %s\n", escape(strings.ToUpper(title)))
			} else {
				fmt.Fprintf(b, ".PP\n.B %s\n", escape(title))
			}
			literal(b, lines[1:])
		case strings.HasPrefix(first, " "):
			literal(b, lines)
		default:
			b.WriteString(".PP\n")
			for _, line := range lines {
				b.WriteString(escape(line) + "\n")
			}
		}
	}
}

// literal keeps lines as they are.
func literal(b *bytes.Buffer, lines []string) {
	b.WriteString(".PP\n.RS 2\n.nf\n")
	for _, line := range lines {
		b.WriteString(escape(strings.TrimPrefix(line, "  ")) + "\n")
	}
	b.WriteString(".fi\n.RE\n")
}

// escape keeps text from being read as roff, and ASCII signs as they are typed.
func escape(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\`", "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") {
		s = `\&` + s
	}
	return s
}
