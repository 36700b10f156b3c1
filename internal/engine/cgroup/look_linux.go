package cgroup

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Look finds out what this process may use. It makes groups and removes them.
func Look() Host {
	var h Host
	for _, tree := range hierarchies(read("/proc/self", "mountinfo"), read("/proc/self", "cgroup")) {
		candidates := []string{tree.ownGroup}
		if tree.version == 2 && tree.ownGroup != tree.mount {
			candidates = append(candidates, filepath.Dir(tree.ownGroup))
		}
		for _, dir := range candidates {
			if p := (Place{tree.version, dir, try(tree.version, dir)}); len(p.Controllers) > 0 {
				h.Places = append(h.Places, p)
				break
			}
		}
		if tree.version == 2 && tree.mount == "/sys/fs/cgroup" {
			h.Manager = manager(os.Geteuid())
		}
	}
	return h
}

// try returns the controllers that work in groups made in dir.
func try(version int, dir string) []Controller {
	// A process moves into a group only with write permission for the group around both.
	if unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) != nil {
		return nil
	}
	// Another process may sweep meanwhile, and would take a group without a lock for abandoned.
	m, err := newMember(Place{Version: version, Dir: dir})
	if err != nil {
		return nil
	}
	defer m.lock.Close()
	defer unix.Rmdir(m.group)
	if version == 2 && strings.TrimSpace(read(m.group, "cgroup.type")) != "domain" {
		return nil
	}
	return present(version, m.group)
}

func present(version int, group string) []Controller {
	return those(func(c Controller) bool {
		return unix.Access(filepath.Join(group, Limits{}.settings(version, c)[0].file), unix.W_OK) == nil
	})
}

// prefix marks this package's groups.
const prefix = "sbxhost-"

func newName() string { return prefix + strconv.FormatUint(rand.Uint64(), 36) }

// manager finds the systemd of an ordinary user.
func manager(uid int) *Manager {
	if uid == 0 {
		return nil // root needs no systemd for its groups
	}
	m := Manager{RuntimeDir: "/run/user/" + strconv.Itoa(uid)}
	for _, program := range [...]string{"/usr/bin/busctl", "/bin/busctl"} {
		if unix.Access(program, unix.X_OK) == nil {
			m.Bus = program
			break
		}
	}
	if m.Bus == "" || unix.Access(m.RuntimeDir+"/bus", unix.W_OK) != nil {
		return nil
	}
	id := strconv.Itoa(uid)
	names := strings.Fields(read("/sys/fs/cgroup/user.slice/user-"+id+".slice/user@"+id+".service", "cgroup.controllers"))
	m.Controllers = those(func(c Controller) bool { return slices.Contains(names, string(c)) })
	return &m
}
