// Package kept is for containers in which one command runs after another: what each is made
// of, where that of a session is found, and when it goes.
package kept
