// Package vessel runs containers, and in them commands, by the init that is their first
// process.
package vessel
