package enginetest_test

import (
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

func suite(t *testing.T, e shared.Engine, o enginetest.Options) *enginetest.Suite {
	t.Helper()
	s, err := enginetest.New(t.Context(), e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func only(id string) *regexp.Regexp { return regexp.MustCompile("^" + regexp.QuoteMeta(id) + "$") }

// For each rule there is an engine that breaks it, and the kit notices.
func TestBrokenEnginesAreCaught(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	broken, processes := breakages(), brokenProcesses(self)
	for _, id := range enginetest.RuleIDs() {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			o := enginetest.Options{Run: only(id), ContractOnly: true, RuleTimeout: 6 * time.Second}
			var e shared.Engine
			if launch, ok := processes[id]; ok {
				o.Launch = launch
				l, err := launch(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(l.Kill)
				e = l
			} else if b, ok := broken[id]; ok {
				e = breakEngine(b)
			} else {
				t.Fatal("no engine breaks this rule: how is it known that the kit would notice?")
			}
			results := suite(t, e, o).Run(t.Context(), nil)
			if len(results.Results) != 1 || !results.Results[0].Status.Bad() {
				t.Errorf("the kit did not notice: %+v", results)
			} else {
				t.Log(results.Results[0].Detail)
			}
		})
	}
}

// notIsolation are the probes that a good engine without isolation passes: of
// what an engine does by itself, and of what the host may protect, such as its
// first process.
var notIsolation = []string{
	"read.28", "read.34", "read.35", "write.60", "write.61", "proc.27", "proc.31", "proc.32", "net.16", "net.17",
	"env.04", "host.20", "host.21", "host.25",
}

// An engine that claims to isolate and does not holds nothing: what the kit
// calls held is known to be a matter of isolation.
func TestNothingIsHeldWithoutIsolation(t *testing.T) {
	t.Parallel()
	results := suite(t, breakEngine(liar()), enginetest.Options{ProbesOnly: true}).Run(t.Context(), nil)
	// An ordinary user is held by the host itself where it takes a privilege.
	user := func(id string) bool {
		return os.Geteuid() != 0 && (enginetest.NeedsPrivilege(id) || id == "write.24")
	}
	leaked := 0
	for _, r := range results.Results {
		switch {
		case r.Status == enginetest.Leaked || r.Status == enginetest.ControlFailed || r.Status == enginetest.Failed:
			leaked++
		case r.Status == enginetest.Held && !enginetest.MustWork(r.ID) && !slices.Contains(notIsolation, r.ID) && !user(r.ID):
			t.Errorf("%s (%s) is held without isolation: %s", r.ID, r.Title, r.Detail)
		}
	}
	t.Log(results.Summary())
	if leaked < 80 {
		t.Errorf("only %d probes notice", leaked)
	}
}

// An engine whose commands do nothing holds nothing either: "denied" must not
// mean "broken".
func TestNothingIsHeldByABrokenEngine(t *testing.T) {
	t.Parallel()
	b := liar()
	b.start = changed(func(c *shared.Command, _ *shared.Stdio) {
		c.Args, c.Script = []string{"/bin/sh", "-c", `echo 'sbxhost-verdict: {"verdict":"denied","detail":"as everything"}'`}, ""
	}).start
	for _, r := range suite(t, breakEngine(b), enginetest.Options{ProbesOnly: true}).Run(t.Context(), nil).Results {
		if r.Status == enginetest.Held && enginetest.ControlIsGranted(r.ID) {
			t.Errorf("%s (%s) counts as held: %s", r.ID, r.Title, r.Detail)
		}
	}
}
