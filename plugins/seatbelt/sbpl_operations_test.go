package seatbelt

import "strings"

// sbplOperations are the names that are known here: from published tables of the
// kernel extension's, and from profiles that others run on macOS 12 and later.
var sbplOperations = strings.Fields(`
default
appleevent-send
authorization-right-obtain
file* file-ioctl file-map-executable file-mknod file-mount file-unmount file-revoke file-issue-extension file-chroot
file-link file-clone
file-read* file-read-data file-read-metadata file-read-xattr
file-write* file-write-create file-write-data file-write-flags file-write-mode file-write-owner
file-write-setugid file-write-times file-write-unlink file-write-xattr
hid-control
iokit* iokit-open iokit-get-properties iokit-set-properties
ipc* ipc-posix* ipc-posix-sem ipc-posix-shm* ipc-sysv*
job-creation
lsopen
mach* mach-bootstrap mach-host* mach-lookup mach-priv* mach-priv-host-port mach-priv-task-port mach-register mach-task-name
network* network-bind network-inbound network-outbound
nvram*
process* process-exec* process-exec process-exec-interpreter process-fork process-info*
pseudo-tty
signal
sysctl* sysctl-read sysctl-write
system* system-socket
user-preference* user-preference-read user-preference-write
`)

func knownOperation(operation string) bool {
	for _, o := range sbplOperations {
		if o == operation {
			return true
		}
	}
	return false
}

// coveringOperations is an operation and what covers it, from the most specific to the
// default.
func coveringOperations(operation string) []string {
	out := []string{operation}
	base := strings.TrimSuffix(operation, "*")
	if base == operation {
		out = append(out, base+"*")
	}
	for i := strings.LastIndexByte(base, '-'); i > 0; i = strings.LastIndexByte(base, '-') {
		base = base[:i]
		out = append(out, base+"*")
	}
	return append(out, "default")
}
