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
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return Host{}
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return Host{}
	}
	var h Host
	for _, tree := range hierarchies(string(mounts), string(groups)) {
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
	if version == 2 {
		kind, err := os.ReadFile(filepath.Join(m.group, "cgroup.type"))
		if err != nil || strings.TrimSpace(string(kind)) != "domain" {
			return nil
		}
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
	list, err := os.ReadFile("/sys/fs/cgroup/user.slice/user-" + id + ".slice/user@" + id + ".service/cgroup.controllers")
	if err != nil {
		return nil
	}
	names := strings.Fields(string(list))
	m.Controllers = those(func(c Controller) bool { return slices.Contains(names, string(c)) })
	return &m
}
