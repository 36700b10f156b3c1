package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sbxhost/sbxhost/internal/engine/nsengine"
)

// examinePlatform checks the surroundings of engines. Each engine finds out by a probe what the
// kernel allows it.
func examinePlatform() []finding { return []finding{appArmor(), container()} }

func appArmor() finding {
	f := finding{Name: "AppArmor", State: stateOK, Found: "does not restrict user namespaces"}
	if nsengine.LookAtKernel().AppArmorRestrict == "1" {
		f.State, f.Found = stateLimited, "restricts user namespaces of programs without a profile"
		f.Consequence = "the engines native and bwrap work only where a profile allows userns; the probes below show whether one does"
		f.Fix = appArmorFix(os.Executable())
	}
	return f
}

const appArmorOff = "as root: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"

// appArmorFix returns the profile that lets this program, and the lean engine beside it, make user
// namespaces. It returns none for a path with a special meaning in a profile.
func appArmorFix(program string, err error) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._+-", r)
	}
	if err != nil || strings.ContainsFunc(program, func(r rune) bool { return !plain(r) }) {
		return appArmorOff
	}
	// The parser takes a string as a profile's path only if it begins with a slash.
	dir, name := filepath.Split(program)
	return fmt.Sprintf("as root: write `abi <abi/4.0>, profile sbxhost %s{%s,sbxhost-engine-native} flags=(unconfined) { userns, }` to /etc/apparmor.d/sbxhost and run: apparmor_parser -r /etc/apparmor.d/sbxhost", dir, name)
}

// container reports whether this machine is one.
func container() finding {
	f := finding{Name: "container", State: stateOK, Found: "none: this is a machine of its own"}
	if mark := nsengine.ContainerMark(); mark != "" {
		f.State, f.Found = stateLimited, "inside one, by "+mark
		f.Consequence = "what the container withholds, such as mounting /proc, sandboxes inside lack too"
		f.Fix = "if the engines fail below: run the container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or privileged"
	}
	if nsengine.InSandbox() {
		f.State, f.Found = stateLimited, "inside a sandbox of sbxhost"
		f.Consequence, f.Fix = "no namespaces can be made here, unless its definition says so", nsengine.FixSandbox
	}
	return f
}
