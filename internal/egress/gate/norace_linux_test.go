//go:build !race

package gate

const raced = 1
