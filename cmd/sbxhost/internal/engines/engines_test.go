package engines

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/sbxhost/sbxhost/shared"
)

// hanging is a host whose engine never answers.
type hanging struct{}

func (hanging) EngineProbe(ctx context.Context, _ string) (shared.Probe, error) {
	<-ctx.Done()
	return shared.Probe{}, ctx.Err()
}

func TestProbeThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if e := Probe(t.Context(), hanging{}, "x"); !strings.Contains(e.Error, "Probe has not returned") {
			t.Errorf("%+v", e)
		}
	})
}
