// Package dockerd starts a Docker daemon for tests, apart from any other of the machine: in a
// network and a mount namespace of its own, with a data root, an exec root and a socket of its own
// in a temporary directory, and without a registry.
//
// It needs root and Debian's docker.io and busybox-static. A stopped daemon leaves nothing. If the
// test's process is killed, the daemon ends by itself, and its directory stays. The rootless kinds
// need an ordinary user with numbers in /etc/subuid and /etc/subgid, Debian's uidmap, and
// RootlessDocker its rootlesskit.
package dockerd
