// Command typecheck says what of packages, their tests and all that they import would not
// compile, and compiles nothing. GOOS, GOARCH and the directory say which they are, as for
// the go command.
//
//	typecheck [-tests=false] PACKAGE...
package main

import (
	"flag"
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	tests := flag.Bool("tests", true, "tests, too")
	flag.Parse()
	list, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax &^ packages.NeedTypesInfo, Tests: *tests}, flag.Args()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if packages.PrintErrors(list) > 0 || len(list) == 0 {
		os.Exit(1)
	}
}
