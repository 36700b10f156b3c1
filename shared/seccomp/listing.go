package seccomp

import (
	"fmt"
	"strings"
)

// String lists what the filter refuses, for people.
func (f Filter) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "for %s, %d instructions; calls not listed are allowed\n", f.arch.goarch, len(f.program))
	b.WriteString("calls of any other architecture: the process is killed\n")
	fmt.Fprintf(&b, "calls above number %d: ENOSYS # x32, and what is newer than this filter\n", newest)
	for _, r := range f.rules {
		var names []string
		for _, name := range r.calls {
			if f.arch.numberOf(name) != absent {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			continue
		}
		b.WriteString(strings.Join(names, ", "))
		before := " if "
		for _, t := range r.tests {
			b.WriteString(before + t.String())
			before = " and "
		}
		fmt.Fprintf(&b, ": %v # %s\n", r.deny, r.why)
	}
	return b.String()
}

func (t test) String() string {
	format := "%#x"
	if t.name == "mode" {
		format = "%#o"
	}
	left := t.name
	if t.mask != all {
		left = fmt.Sprintf("%s & "+format, left, t.mask)
	}
	comparison := "=="
	if t.op == notEqual {
		comparison = "!="
	}
	return fmt.Sprintf("%s %s "+format, left, comparison, t.value)
}
