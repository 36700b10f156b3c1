package image

import (
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/owner"
)

func TestProjectOwner(t *testing.T) {
	t.Parallel()
	o := owner.This()
	name := ProjectName(o, 1)
	if got, ok := projectOwner(name); !ok || got != o || name == ProjectName(o, 2) || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
		t.Errorf("%q: got %+v, %v", name, got, ok)
	}
	for _, bad := range []string{"", "sbxhost", "sbxhost-", "sbxhost-a-b-c", "other-a-b-1-c_1", "sbxhost-a-b-0-c_1", "sbxhost-a-b-1-_1"} {
		if _, ok := projectOwner(bad); ok {
			t.Errorf("%q is taken for a project of ours", bad)
		}
	}
}
