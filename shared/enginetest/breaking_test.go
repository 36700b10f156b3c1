package enginetest_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
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

func every(ids ...string) *regexp.Regexp {
	return regexp.MustCompile("^(" + strings.ReplaceAll(strings.Join(ids, "|"), ".", `\.`) + ")$")
}

// brokenByLies are rules about features that the broken engines do not have: TestLiesAreCaught
// has the engines that break them.
var brokenByLies = [...]string{"command.16", "command.17", "command.18", "command.20", "session.01", "session.02", "session.03", "command.21", "session.04", "session.05", "session.06", "session.07"}

// For each rule there is an engine that breaks it, and the kit notices.
func TestBrokenEnginesAreCaught(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	broken, clear := breakages()
	t.Cleanup(clear)
	processes := brokenProcesses(self)
	ways := slices.Sorted(maps.Keys(broken))
	for way := range processes {
		if _, too := broken[way]; !too {
			ways = append(ways, way)
		}
	}
	rules := map[string]bool{}
	for _, id := range brokenByLies {
		rules[id] = true
	}
	for _, way := range ways {
		id, _, _ := strings.Cut(way, "/")
		rules[id] = true
	}
	for _, id := range enginetest.RuleIDs() {
		if !rules[id] {
			t.Errorf("%s: no engine breaks this rule: how is it known that the kit would notice?", id)
		}
		delete(rules, id)
	}
	for id := range rules {
		t.Errorf("%s is broken and is no rule", id)
	}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			id, how, _ := strings.Cut(way, "/")
			o := enginetest.Options{Run: only(id), ContractOnly: true, CaseTimeout: 6 * time.Second}
			if how == "in memory" {
				o.StreamBytes = 160 << 20
				o.CaseTimeout = 10 * time.Minute
			}
			var e shared.Engine
			if launch, ok := processes[way]; ok {
				o.Launch = launch
				l, err := launch(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(l.Kill)
				e = l
			} else {
				e = breakEngine(broken[way])
			}
			results := suite(t, e, o).Run(t.Context(), nil)
			if len(results.Results) != 1 || !results.Results[0].Status.Bad() {
				t.Errorf("the kit did not notice: %+v", results)
			} else {
				t.Log(results.Results[0].Detail)
				if detail := results.Results[0].Detail; how == "in memory" && !strings.Contains(detail, "grew by") {
					t.Errorf("what it noticed is something else: %s", detail)
				}
			}
		})
	}
}

// For each feature that can be asked for, an engine that claims all others and
// takes what asks for that one is caught, and told which.
func TestUnclaimedFeaturesMustBeRefused(t *testing.T) {
	t.Parallel()
	for _, feature := range append(enginetest.AskedFeatures(), shared.FeatureHidden, shared.FeatureTTY) {
		t.Run(string(feature), func(t *testing.T) {
			t.Parallel()
			claimed := slices.DeleteFunc(slices.Concat(enginetest.AskedFeatures(), shared.Features{shared.FeatureHidden, shared.FeatureTTY}),
				func(f shared.Feature) bool { return f == feature })
			b := breakage{
				info: func(i shared.Info) shared.Info { i.Features = claimed; return i },
				open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
					return e.Open(ctx, shared.Spec{Unconfined: true})
				},
				start: changed(func(c *shared.Command, s *shared.Stdio) { c.TTY = false }).start,
			}
			results := suite(t, breakEngine(b), enginetest.Options{Run: only("open.03")}).Run(t.Context(), nil)
			if len(results.Results) != 1 || results.Results[0].Status != enginetest.Failed {
				t.Fatalf("the kit did not notice: %+v", results)
			}
			for line := range strings.Lines(results.Results[0].Detail) {
				if !strings.HasPrefix(line, string(feature)+" is not claimed") {
					t.Errorf("it says %q", line)
				}
			}
		})
	}
}

// A limit that an engine without isolation claims is tried without being asked for.
func TestClaimedLimitIsTried(t *testing.T) {
	t.Parallel()
	for feature, id := range map[shared.Feature]string{shared.FeatureLimitPIDs: "proc.35", shared.FeatureLimitOpenFiles: "proc.38"} {
		b := opened(func(s *shared.Spec) { s.Limits = shared.Limits{} })
		b.info = func(i shared.Info) shared.Info {
			i.Features = append(slices.Clone(i.Features), feature)
			return i
		}
		results := suite(t, breakEngine(b), enginetest.Options{ProbesOnly: true}).Run(t.Context(), nil)
		if len(results.Results) == 0 || results.Results[0].ID != id || len(results.Bad()) != len(results.Results) {
			t.Errorf("%s: %+v", feature, results)
		}
		if _, drop := results.Claims(); !slices.Equal(drop, []shared.Feature{feature}) {
			t.Errorf("%s: to be dropped are %q", feature, drop)
		}
	}
}

// notIsolation are the probes that a good engine without isolation passes: of
// what an engine does by itself, and of what the host may protect, such as its
// first process.
var notIsolation = []string{
	"read.34", "read.35", "proc.27", "proc.31", "net.16", "net.17",
	"env.04",
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
		case r.Status.Bad():
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

// Where no command starts, that is the one finding; and a feature's name that nobody knows is told.
func TestOneFinding(t *testing.T) {
	t.Parallel()
	refused := errors.New("nothing starts here")
	none := breakEngine(breakage{start: func(context.Context, shared.Sandbox, shared.Command, shared.Stdio) (shared.Process, error) {
		return nil, refused
	}})
	if _, err := enginetest.New(t.Context(), none, enginetest.Options{}); err == nil || !strings.Contains(err.Error(), refused.Error()) {
		t.Errorf("the kit begins with an engine that starts nothing: %v", err)
	}
	misspelt := breakEngine(breakage{info: func(i shared.Info) shared.Info {
		i.Features = append(slices.Clone(i.Features), "network.nome")
		return i
	}})
	var told strings.Builder
	if err := suite(t, misspelt, enginetest.Options{Run: only("open.01")}).Run(t.Context(), nil).WriteTable(&told, true); err != nil || !strings.Contains(told.String(), ": network.nome\n") {
		t.Errorf("%q, %v", told.String(), err)
	}
}

// A command that is over before it has left a daemon behind, as on a machine that is
// busy, shows nothing: it gets more time.
func TestDaemonIsAwaited(t *testing.T) {
	t.Parallel()
	b := liar()
	b.start = changed(func(c *shared.Command, _ *shared.Stdio) {
		c.Args = append([]string{"/bin/sh", "-c", `sleep 1; exec "$@"`, "sh"}, c.Args...)
	}).start
	results := suite(t, breakEngine(b), enginetest.Options{Run: only("life.03")}).Run(t.Context(), nil)
	if len(results.Results) != 1 || results.Results[0].Status != enginetest.Leaked {
		t.Errorf("the kit did not notice: %+v", results)
	}
}
