package review

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/gitindex"
)

// objects reports whether a path in a git directory is one of git's objects, or a directory of them.
func objects(in string) bool { return in == "objects" || strings.HasPrefix(in, "objects/") }

// A setting of git's configuration, where it lies in a file.
type setting struct {
	section  string // in lower case, with its subsection as it is: `branch "x"` is branch.x
	name     string // in lower case
	value    string
	from, to int // the bytes of its lines
}

func (s *setting) key() string { return s.section + "." + s.name }

// errConfig is the error for a configuration that is not understood.
var errConfig = errors.New("a configuration of git's that is not understood")

// parseConfig reads a file of git's configuration. What git might understand in another way is an error.
func parseConfig(text string) (list []setting, err error) {
	section := ""
	for at := 0; at < len(text); {
		begin := at
		line, _, _ := strings.Cut(text[at:], "\n")
		at += len(line) + 1
		line = strings.TrimSpace(strings.TrimSuffix(line, "\r"))
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			rest := ""
			if section, rest, err = parseSection(line); err != nil {
				return nil, err
			}
			if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' && rest[0] != ';' {
				return nil, errConfig // a setting on the line of its section
			}
			continue
		}
		name, _, _ := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if section == "" || !isSettingName(name) {
			return nil, errConfig
		}
		one := setting{section: section, name: strings.ToLower(name), from: begin, value: "true"}
		if i := strings.IndexByte(text[begin:min(at, len(text))], '='); i >= 0 {
			end := 0
			if one.value, end, err = parseValue(text[begin+i+1:]); err != nil {
				return nil, err
			}
			at = begin + i + 1 + end
		}
		one.to = min(at, len(text))
		list = append(list, one)
	}
	return list, nil
}

// isSettingName reports whether git takes it for the name of a setting: a letter, and letters, digits and
// hyphens.
func isSettingName(name string) bool {
	for i, c := range []byte(name) {
		if letter := c|0x20 >= 'a' && c|0x20 <= 'z'; !letter && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return name != ""
}

func parseSection(line string) (section, rest string, err error) {
	i := strings.IndexAny(line, "]\" \t")
	if i < 0 {
		return "", "", errConfig
	}
	section = strings.ToLower(line[1:i])
	for _, c := range []byte(section) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return "", "", errConfig
		}
	}
	if line[i] == ']' {
		return section, line[i+1:], nil
	}
	quoted := strings.TrimLeft(line[i:], " \t")
	if !strings.HasPrefix(quoted, `"`) || strings.Contains(section, ".") {
		return "", "", errConfig
	}
	var b strings.Builder
	for j := 1; j < len(quoted); j++ {
		switch c := quoted[j]; c {
		case '"':
			if !strings.HasPrefix(quoted[j+1:], "]") {
				return "", "", errConfig
			}
			return section + "." + b.String(), quoted[j+2:], nil
		case '\\':
			if j++; j == len(quoted) {
				return "", "", errConfig
			}
			b.WriteByte(quoted[j])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", errConfig
}

// parseValue reads a value up to the end of its last line, and gives where the next one begins.
func parseValue(text string) (value string, end int, err error) {
	var b strings.Builder
	quoted, kept := false, 0 // how much of b is no blank at its end
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\n':
			if quoted {
				return "", 0, errConfig
			}
			return b.String()[:kept], i + 1, nil
		case c == '\r' && strings.HasPrefix(text[i:], "\r\n"):
		case c == '"':
			quoted = !quoted
			kept = b.Len()
		case c == '\\':
			if i++; i == len(text) {
				return "", 0, errConfig
			}
			escaped := strings.IndexByte("\nntb\"\\", text[i])
			if escaped < 0 {
				return "", 0, errConfig
			}
			if escaped > 0 {
				b.WriteByte("\x00\n\t\b\"\\"[escaped])
				kept = b.Len()
			}
		case !quoted && (c == '#' || c == ';'):
			line, _, _ := strings.Cut(text[i:], "\n")
			i += len(line) - 1
		case !quoted && (c == ' ' || c == '\t'):
			if b.Len() > 0 {
				b.WriteByte(c)
			}
		default:
			b.WriteByte(c)
			kept = b.Len()
		}
	}
	if quoted {
		return "", 0, errConfig
	}
	return b.String()[:kept], len(text), nil
}

// mergeConfig gives the host's configuration with what of the review's runs nothing and leads
// nowhere else, and the keys that are left out. The result is nil where there is nothing to take over.
func mergeConfig(ours, theirs string) (merged []byte, left []string, err error) {
	have, err := parseConfig(ours)
	if err != nil {
		return nil, nil, err
	}
	want, err := parseConfig(theirs)
	if err != nil {
		return nil, nil, err
	}
	values := func(list []setting, key string) (v []string) {
		for i := range list {
			if list[i].key() == key {
				v = append(v, list[i].value)
			}
		}
		return v
	}
	remotes := map[string]bool{".": true} // that the host has
	for i := range have {
		if name, ok := strings.CutPrefix(have[i].section, "remote."); ok {
			remotes[name] = true
		}
	}
	refused := map[string]bool{} // of each key that differs
	var added strings.Builder
	for _, s := range slices.Concat(want, have) {
		key := s.key()
		v := values(want, key)
		if _, done := refused[key]; done || slices.Equal(v, values(have, key)) {
			continue
		}
		refused[key] = slices.ContainsFunc(append(v, ""), func(v string) bool { return !harmless(s.section, s.name, v, remotes) })
		if refused[key] {
			left = append(left, key)
		} else if len(v) > 0 {
			writeSettings(&added, &s, v)
		}
	}
	slices.Sort(left)
	if len(left) == len(refused) {
		return nil, left, nil
	}
	var b strings.Builder
	at := 0
	for i := range have {
		if no, differs := refused[have[i].key()]; differs && !no {
			b.WriteString(ours[at:have[i].from])
			at = have[i].to
		}
	}
	b.WriteString(ours[at:])
	if text := b.String(); text != "" && !strings.HasSuffix(text, "\n") {
		b.WriteByte('\n')
	}
	b.WriteString(added.String())
	return []byte(b.String()), left, nil
}

// writeSettings writes the values of one key, with its section.
func writeSettings(b *strings.Builder, s *setting, values []string) {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`)
	b.WriteByte('[')
	section, sub, has := strings.Cut(s.section, ".")
	if b.WriteString(section); has {
		b.WriteString(` "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(sub) + `"`)
	}
	b.WriteString("]\n")
	for _, v := range values {
		b.WriteString("\t" + s.name + ` = "` + quote.Replace(v) + "\"\n")
	}
}

// harmless reports whether a setting may come from a review: it runs no program, and git speaks to nobody
// else by it. The value "" asks for the key alone.
func harmless(section, name, value string, remotes map[string]bool) bool {
	if strings.ContainsAny(value, "\n\x00\b") || strings.ContainsAny(section, "\n\x00") {
		return false
	}
	first, sub, _ := strings.Cut(section, ".")
	word := !strings.ContainsFunc(value, func(r rune) bool { return r|0x20 < 'a' || r|0x20 > 'z' })
	switch first + "." + name {
	case "branch.remote":
		// A remote can also be written as an address.
		return sub != "" && (value == "" || remotes[value])
	case "branch.merge":
		return sub != "" && (value == "" || strings.HasPrefix(value, "refs/"))
	case "branch.rebase":
		return sub != "" && word
	case "remote.fetch":
		from, to, ok := strings.Cut(strings.TrimPrefix(value, "+"), ":")
		return remotes[sub] && (value == "" || ok && strings.HasPrefix(from, "refs/") && strings.HasPrefix(to, "refs/"))
	case "user.name", "user.email":
		return sub == ""
	case "pull.rebase", "pull.ff", "push.default", "push.autosetupremote":
		return sub == "" && word
	}
	return false
}

// indexEntries gives what the index of a repository says of its files.
func indexEntries(b []byte, hash int) (string, bool) {
	i, ok := gitindex.Read(b, hash)
	return i.Entries, ok && i.Base == nil
}

// isIndex reports whether a path in a git directory is the index of a repository, or a part of one.
func isIndex(in string) bool {
	return gitindex.Named(path.Base(in)) && !strings.Contains("/"+in, "/refs/") && !strings.Contains("/"+in, "/logs/") && !objects(in)
}
