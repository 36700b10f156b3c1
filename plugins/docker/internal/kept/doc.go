// Package kept is for containers in which one command runs after another: what each is made from,
// where a session's container is, and when it ends.
package kept
