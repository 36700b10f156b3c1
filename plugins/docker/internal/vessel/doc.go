// Package vessel runs containers, and commands in them, through the init that is their first
// process.
package vessel
