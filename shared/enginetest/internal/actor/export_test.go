package actor

import "strings"

// Has says whether all verbs of an action are there on this platform.
func Has(act []string) bool {
	for _, way := range split(act, "or") {
		for _, step := range Steps(way) {
			if _, ok := findAction(strings.TrimLeft(step[0], "-!")); !ok {
				return false
			}
		}
	}
	return true
}
