// Man writes the manual page sbxhost.1 from the help texts of the command:
//
//	go run ./docs/man cmd/sbxhost/help docs/man/sbxhost.1
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./docs/man HELP-DIRECTORY OUTPUT")
		os.Exit(2)
	}
	page, err := page(os.DirFS(os.Args[1]))
	if err == nil {
		err = os.WriteFile(os.Args[2], page, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
