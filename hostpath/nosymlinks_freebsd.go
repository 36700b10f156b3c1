package hostpath

// OpenNoSymlinks opens a clean absolute path and fails with ELOOP if any component
// of it is a symlink.
func OpenNoSymlinks(path string, flag int, perm uint32) (int, error) {
	return openStepwise(path, flag, perm)
}
