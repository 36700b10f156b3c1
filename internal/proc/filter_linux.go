package proc

import "os"

// HasPrivateFilter reports whether a process, by two fields of its status, may have a filter of system calls that
// others with as many filters do not have. With no_new_privs everybody may load one, and nobody can
// compare them. Those of pid 1 are common.
func HasPrivateFilter(noNewPrivs, filters string) bool {
	if noNewPrivs == "0" || filters == "0" {
		return false
	}
	first, err := os.ReadFile("/proc/1/status")
	return err != nil || StatusField(string(first), "Seccomp_filters") != filters
}
