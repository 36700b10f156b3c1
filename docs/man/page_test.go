package main

import (
	"bytes"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// The page that is there is the one that the help texts of today make.
func TestPageIsCurrent(t *testing.T) {
	t.Parallel()
	got, err := page(os.DirFS("../../cmd/sbxhost/help"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("sbxhost.1")
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("sbxhost.1 is not what the help texts make (%v): run make man", err)
	}
}

func TestPageEscapes(t *testing.T) {
	t.Parallel()
	got, err := page(fstest.MapFS{
		"sbxhost.txt": {Data: []byte("Usage: x\n\n.not a request, and 'neither'\n\nHow:\n  -a\\b   c\n")},
		"a.txt":       {Data: []byte("Usage: x a\n       x b\n\nText.\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n\\&.not a request, and \\(aqneither\\(aq\n", ".SH HOW\n", "\n\\-a\\eb   c\n", ".SS sbxhost a\n", "\nx a\nx b\n"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if _, err := page(fstest.MapFS{}); err == nil {
		t.Error("no help texts and no error")
	}
}

// groff has nothing to warn of, and what it makes is readable.
func TestPageRenders(t *testing.T) {
	t.Parallel()
	groff, err := exec.LookPath("groff")
	if err != nil {
		if slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "groff") {
			t.Fatalf("SBXHOST_REQUIRE lists groff: %v", err)
		}
		t.Skip("no groff here")
	}
	var out, errs bytes.Buffer
	cmd := exec.Command(groff, "-man", "-Tascii", "-ww", "-P-cbou", "sbxhost.1")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil || errs.Len() > 0 {
		t.Fatalf("groff: %v\n%s", err, &errs)
	}
	for _, want := range []string{"SYNOPSIS", "  -network=BOOL     with or without the host's network", "sbxhost exec -- go test ./...", "SBXHOST_CONFIG"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the page", want)
		}
	}
}
