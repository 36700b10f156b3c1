package main

import (
	"maps"
	"testing"
	"testing/fstest"
)

func TestCount(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got, err := count(fstest.MapFS{
		"a.go":            file("// Package a.\npackage a\n\n/* more\nthan one */ var x = 1 // one line\n\nvar text = `two\n\nof three`\n"),
		"b/b.go":          file("package b\nfunc f() {\n\t// nothing\n}\n"),
		"b/b_test.go":     file("package b\n"),
		"b/b.pb.go":       file("package b\n"),
		"b/notes.txt":     file("package b\n"),
		"b/testdata/x.go": file("package x\n"),
	})
	if want := map[string]int{".": 5, "b": 3}; err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}
