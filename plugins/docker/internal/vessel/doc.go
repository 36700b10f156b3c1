// Package vessel runs containers, and meets the init that is their first process.
package vessel
