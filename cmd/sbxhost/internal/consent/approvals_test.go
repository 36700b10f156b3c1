package consent

import (
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/approvals"
)

func TestScopeText(t *testing.T) {
	t.Parallel()
	for want, j := range map[string]ApprovalJSON{
		"always":                        {Scope: approvals.Always},
		"once, 6h left":                 {Scope: approvals.Once, Here: true, LeftMS: (6 * time.Hour).Milliseconds()},
		"once, 1s left":                 {Scope: approvals.Once, Here: true, LeftMS: 1},
		"session, 366 days left":        {Scope: approvals.Session, Here: true, LeftMS: (366 * 24 * time.Hour).Milliseconds()},
		"session elsewhere, 1m30s left": {Scope: approvals.Session, LeftMS: 90_000},
		`session "a\nb", 1h left`:       {Scope: approvals.Session, Session: "name:a\nb", LeftMS: 3_600_000},
	} {
		if got := scopeText(&j); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
