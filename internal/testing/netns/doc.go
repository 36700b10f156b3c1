// Package netns runs tests in network namespaces of their own, as an ordinary user, too.
// There a test has all ports and addresses for itself, and nothing of the machine's network.
package netns
