package seatbelt

import (
	"regexp"

	"github.com/sbxhost/sbxhost/paths"
)

// matches reports whether c is about a path. It is for messages: what holds is
// the profile.
func (c restriction) matches(path string) bool {
	if c.path != "" && paths.Inside(c.path, path) {
		return true
	}
	for _, q := range c.patterns {
		if re, err := regexp.Compile(q.regex(true)); err == nil && re.MatchString(path) {
			return true
		}
	}
	return false
}
