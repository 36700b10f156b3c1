//go:build unix && !linux

package frame

// receiveFlags: these systems cannot make what arrives close-on-exec at once.
const receiveFlags = 0
