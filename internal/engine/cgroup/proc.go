package cgroup

import (
	"path"
	"slices"
	"strings"

	"github.com/sbxhost/sbxhost/internal/proc"
)

// hierarchy is one mounted cgroup file system with this process's group in it.
type hierarchy struct {
	version     int
	controllers []Controller // of version 1, where they belong to the mount
	mount       string
	ownGroup    string // this process's group, beneath mount
}

// hierarchies finds, in the contents of /proc/self/mountinfo and /proc/self/cgroup, the hierarchies
// that show this process's own group.
func hierarchies(mountinfo, cgroups string) []hierarchy {
	var out []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 3 {
			continue
		}
		h := hierarchy{mount: proc.Unescaped.Replace(left[4])}
		root := proc.Unescaped.Replace(left[3])
		switch right[0] {
		case "cgroup2":
			h.version = 2
		case "cgroup":
			h.version = 1
			options := strings.Split(right[2], ",")
			h.controllers = those(func(c Controller) bool { return slices.Contains(options, string(c)) })
			if len(h.controllers) == 0 {
				continue
			}
		default:
			continue
		}
		group, ok := groupIn(cgroups, h)
		if !ok {
			continue
		}
		beneath, ok := beneath(root, group)
		if !ok || !strings.HasPrefix(h.mount, "/") {
			continue
		}
		h.ownGroup = path.Join(h.mount, beneath)
		if !slices.ContainsFunc(out, func(o hierarchy) bool { return o.ownGroup == h.ownGroup && o.version == h.version }) {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b hierarchy) int { return b.version - a.version })
	return out
}

// groupIn returns this process's group in h.
func groupIn(cgroups string, h hierarchy) (string, bool) {
	for line := range strings.Lines(cgroups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		if h.version == 2 && parts[0] == "0" && parts[1] == "" {
			return parts[2], true
		}
		if h.version == 1 && slices.Contains(strings.Split(parts[1], ","), string(h.controllers[0])) {
			return parts[2], true
		}
	}
	return "", false
}

// beneath returns group relative to root, unless it is outside: in a cgroup namespace such paths
// begin with "/..".
func beneath(root, group string) (string, bool) {
	if slices.Contains(strings.Split(group, "/"), "..") || slices.Contains(strings.Split(root, "/"), "..") {
		return "", false
	}
	if root == "/" {
		return group, true
	}
	rest, ok := strings.CutPrefix(group, root)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return "/" + rest, true
}
