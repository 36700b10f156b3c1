//go:build race

package gate

// raced is how many times as much memory everything takes by the race detector, at the most.
const raced = 4
