package approvals

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestTrust(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	state := func(path, content string) string {
		t.Helper()
		trusted, record, err := s.Trusts(path, []byte(content))
		switch {
		case err != nil || trusted && record == nil:
			t.Fatalf("%v, %v, %v", trusted, record, err)
		case trusted:
			return "trusted"
		case record != nil:
			return "changed"
		}
		return "unknown"
	}
	if got := state("/w/config.hcl", "a"); got != "unknown" {
		t.Errorf("before: %v", got)
	}
	for _, content := range []string{"a", "b\xff\n"} {
		if err := s.AddTrust(t.Context(), "/w/config.hcl", []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got := []string{state("/w/config.hcl", content), state("/w/config.hcl", content+" "), state("/v/config.hcl", content)}; !reflect.DeepEqual(got, []string{"trusted", "changed", "unknown"}) {
			t.Errorf("%q: %v", content, got)
		}
	}
	for range 2 { // the second time from memory
		list, err := s.TrustList()
		if err != nil || len(list) != 1 || list[0].Path != "/w/config.hcl" {
			t.Fatalf("%v, %v", list, err)
		}
		list[0].Path = "changed by the caller"
	}
	if found, err := s.RevokeTrust(t.Context(), "/w/config.hcl"); err != nil || !found || state("/w/config.hcl", "b\xff\n") != "unknown" {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := s.RevokeTrust(t.Context(), "/w/config.hcl"); err != nil || found {
		t.Errorf("again: %v, %v", found, err)
	}
	// A text that was changed in the store does not fit its hash.
	if err := s.AddTrust(t.Context(), "/w/config.hcl", []byte("mild")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir(), TrustFileName)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "mild", "evil", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if trusted, _, err := s.Trusts("/w/config.hcl", []byte("evil")); trusted || !errors.Is(err, ErrTampered) {
		t.Errorf("%v, %v", trusted, err)
	}
}
