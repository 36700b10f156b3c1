// Package netns runs tests in namespaces of their own, as an ordinary user, too. There a test
// has all ports and addresses, or all mounts, for itself, and changes nothing of the machine's.
package netns
