// Command lines counts the lines of Go code of a directory, for each directory
// below it and in all: those with a token, so neither blank lines nor comments. Tests, generated
// *.pb.go and testdata do not count.
//
//	lines DIR
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: lines DIR")
		os.Exit(2)
	}
	perDir, err := count(os.DirFS(os.Args[1]))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	all := 0
	for _, dir := range slices.Sorted(maps.Keys(perDir)) {
		fmt.Printf("%6d %s\n", perDir[dir], dir)
		all += perDir[dir]
	}
	fmt.Printf("%6d in all\n", all)
}

func count(tree fs.FS) (map[string]int, error) {
	perDir := map[string]int{}
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".pb.go") {
			return nil
		}
		source, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		perDir[filepath.Dir(file)] += codeLines(source)
		return nil
	})
	return perDir, err
}

func codeLines(source []byte) int {
	file := token.NewFileSet().AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	lines := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // the scanner's own, at the end of a line
		}
		for i := range 1 + strings.Count(text, "\n") { // a raw string has several lines
			lines[file.Line(pos)+i] = true
		}
	}
}
