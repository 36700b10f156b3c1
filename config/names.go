package config

import (
	"strings"
)

// list joins names as prose: "a, b and c".
func list(names []string) string {
	switch len(names) {
	case 0:
		return "none"
	case 1:
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

func quoted(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = `"` + n + `"`
	}
	return out
}

// upperFirst makes the first letter upper case, except in an attribute to write, such as network =
// true.
func upperFirst(s string) string {
	first, rest, _ := strings.Cut(s, " ")
	if strings.HasPrefix(rest, "= ") || strings.Contains(first, "_") {
		return s
	}
	if s != "" && s[0] >= 'a' && s[0] <= 'z' {
		return string(s[0]-'a'+'A') + s[1:]
	}
	return s
}

func validEnvName(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// validEnvGlob reports whether s is a variable's name, with * and ?.
func validEnvGlob(s string) bool {
	return s != "" && validEnvName(strings.NewReplacer("*", "_", "?", "_").Replace(s))
}
