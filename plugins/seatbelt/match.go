package seatbelt

import "regexp"

// matches reports whether c is about a path. It is for messages: what holds is
// the profile.
func (c closed) matches(path string) bool {
	if c.path != "" && within(path, c.path) {
		return true
	}
	if !c.pattern.absolute {
		return false
	}
	re, err := regexp.Compile(c.pattern.regex(true))
	return err == nil && re.MatchString(path)
}
