package nsengine

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

func TestTraceIsRefused(t *testing.T) {
	t.Parallel()
	for scope, want := range map[string]bool{"": false, "0": false, "1": false, "2": true, "3": true} {
		if why := yamaRefuses(scope); (why != "") != want {
			t.Errorf("ptrace_scope %q: %q", scope, why)
		}
	}
	_, err := TraceProgram(&shared.Spec{Options: json.RawMessage(`{"ptrace": true}`)})
	if refused, ok := errors.AsType[*shared.Error](err); !ok || !errors.Is(err, shared.ErrUnsupported) || refused.Attribute != "trace" {
		t.Errorf("where the command may trace: %v", err)
	}
}

// Of several wrong options, the error always names the first.
func TestFirstWrongOption(t *testing.T) {
	t.Parallel()
	for range 50 {
		_, err := ParseFilter(json.RawMessage(`{"unix_sockets": 1, "ptrace": 1}`))
		if wrong, ok := errors.AsType[*shared.Error](err); !ok || wrong.Attribute != "config.ptrace" {
			t.Fatal(err)
		}
	}
}
