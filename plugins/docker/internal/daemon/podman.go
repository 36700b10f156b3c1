package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/client/pkg/versions"
	"github.com/sbxhost/sbxhost/shared"
)

// podmanFacts are what only Podman's own API says: in Docker's API it does not say that it is
// rootless, and claims every limit.
type podmanFacts struct {
	rootless                             bool
	limitsMemory, limitsCPUs, limitsPIDs bool
}

// parsePodmanInfo reads the answer to libpod/info.
func parsePodmanInfo(raw []byte) (podmanFacts, error) {
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
		return podmanFacts{}, &shared.Error{Kind: shared.ErrUnavailable,
			Message: "Podman does not say whether it is rootless, so the owner of new files is not known",
			Hint:    "use Podman " + podmanOldest + " or later, or Docker"}
	}
	f := podmanFacts{rootless: *info.Host.Security.Rootless}
	// Without systemd, or on version 1, a rootless Podman makes no control group, and silently
	// ignores limits.
	if f.rootless && (info.Host.CgroupManager != "systemd" || info.Host.CgroupVersion != "v2") {
		return f, nil
	}
	has := func(controller string) bool {
		return !f.rootless || slices.Contains(info.Host.CgroupControllers, controller)
	}
	f.limitsMemory, f.limitsCPUs, f.limitsPIDs = has("memory"), has("cpu"), has("pids")
	return f, nil
}

// podmanOldest is the oldest Podman whose behavior was tested.
const podmanOldest = "4.3.0"

// podmanVersion returns the version of Podman from a daemon's components, or refuses it; empty for
// another daemon.
func podmanVersion(components map[string]string) (string, error) {
	for _, name := range slices.Sorted(maps.Keys(components)) {
		if !strings.Contains(strings.ToLower(name), "podman") {
			continue
		}
		version := components[name]
		if number, _, _ := strings.Cut(version, "-"); number == "" || versions.LessThan(number, podmanOldest) {
			return "", &shared.Error{Kind: shared.ErrUnavailable,
				Message: fmt.Sprintf("the daemon is Podman %s, which was not tested to enforce all that this engine asks for", version),
				Hint:    "use Podman " + podmanOldest + " or later, or Docker"}
		}
		return version, nil
	}
	return "", nil
}
