//go:build unix && !linux

package frame

// receiveFlags: these systems cannot make received descriptors close-on-exec at once.
const receiveFlags = 0
