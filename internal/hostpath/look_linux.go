package hostpath

import "golang.org/x/sys/unix"

// LookFlags open what can be passed through, readable or not.
const LookFlags = unix.O_PATH

// hasACL reports whether a file has more of an access control list than its mode.
func hasACL(path string) bool {
	n, err := unix.Getxattr(path, "system.posix_acl_access", nil)
	return err == nil && n > 0
}
