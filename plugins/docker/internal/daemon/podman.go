package daemon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/client/pkg/versions"

	"github.com/sbxhost/sbxhost/shared"
)

// takePodman takes what only Podman's own API says, the answer to libpod/info: in Docker's API it
// does not say that it is rootless, and claims every limit.
func (f *Facts) takePodman(raw []byte) error {
	var info struct {
		Host *struct {
			CgroupManager     string
			CgroupVersion     string
			CgroupControllers []string
			Security          *struct{ Rootless *bool }
		}
	}
	err := json.Unmarshal(raw, &info)
	if err != nil || info.Host == nil || info.Host.Security == nil || info.Host.Security.Rootless == nil {
		return &shared.Error{Kind: shared.ErrUnavailable,
			Message: "Podman does not say whether it is rootless, so the owner of new files is not known",
			Hint:    "use Podman " + podmanOldest + " or later, or Docker"}
	}
	f.Rootless = *info.Host.Security.Rootless
	// Without systemd, or on version 1, a rootless Podman makes no control group, and silently
	// ignores limits.
	none := info.Host.CgroupManager != "systemd" || info.Host.CgroupVersion != "v2"
	holds := func(controller string) bool {
		return !f.Rootless || !none && slices.Contains(info.Host.CgroupControllers, controller)
	}
	f.LimitsMemory, f.LimitsCPUs, f.LimitsPIDs = f.LimitsMemory && holds("memory"), f.LimitsCPUs && holds("cpu"), f.LimitsPIDs && holds("pids")
	return nil
}

// podmanOldest is the oldest Podman whose behavior was tested.
const podmanOldest = "4.3.0"

// isPodman reports whether a daemon's component is Podman, and refuses an older one.
func isPodman(name, version string) (bool, error) {
	if !strings.Contains(strings.ToLower(name), "podman") {
		return false, nil
	}
	if number, _, _ := strings.Cut(version, "-"); number == "" || versions.LessThan(number, podmanOldest) {
		return false, &shared.Error{Kind: shared.ErrUnavailable,
			Message: fmt.Sprintf("the daemon is Podman %s, which was not tested to enforce all that this engine asks for", version),
			Hint:    "use Podman " + podmanOldest + " or later, or Docker"}
	}
	return true, nil
}
