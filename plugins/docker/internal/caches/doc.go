// Package caches makes the volumes that outlive containers, gives them to their user, and removes
// those that nobody has used for a long time.
package caches
