package hostpath

import "golang.org/x/sys/unix"

// LookFlags open a directory for path lookup, readable or not.
const LookFlags = unix.O_PATH

// hasACL reports whether a file has an access control list beyond its mode.
func hasACL(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}
