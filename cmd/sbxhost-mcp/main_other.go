//go:build !unix

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "sbxhost-mcp: no engine isolates on this system")
	os.Exit(1)
}
