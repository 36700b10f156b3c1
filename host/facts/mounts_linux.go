package facts

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/paths"
)

// mountsBeneath names what is mounted beneath the workspace: an overlay shows what lies under
// it.
func (m *Machine) mountsBeneath() (notes []string) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	defer f.Close()
	root := m.Workspace.Root()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 || !strings.HasPrefix(fields[4], "/") {
			continue
		}
		at := fields[4]
		if unquoted, err := strconv.Unquote(`"` + strings.ReplaceAll(at, `"`, `\"`) + `"`); err == nil {
			at = unquoted // \040 is a space
		}
		if at != root && paths.Inside(root, at) {
			notes = append(notes, "review: what is mounted at "+hostpath.Quote(at)+" is not in the review: commands see what lies under the mount")
		}
	}
	return notes
}
