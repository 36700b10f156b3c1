package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// everyFacts calls f with each combination of the classes of the facts, values
// that there are not among them, and with the facts of the same combination
// that leave out what may change words alone.
func everyFacts(f func(full, bare Facts)) int {
	count := 0
	lacks := shared.Loss{Feature: shared.FeatureNetworkNone, Attribute: "network", What: "network = false"}
	for state := EngineUnknown - 1; state <= EngineUnconfined+1; state++ {
		for _, fallback := range []Fallback{FallbackDefault, FallbackDeny, FallbackApprove, "maybe"} {
			for _, mode := range []Mode{ModeAsk, ModeAlways, ModeDeny, "ask", "maybe"} {
				for _, approval := range []Approval{NoApproval, Refused, ApprovedOnce, ApprovedSession, ApprovedAlways, "approved", "Always"} {
					for bits := range 1 << 5 {
						bit := func(n int) bool { return bits&(1<<n) != 0 }
						bare := Facts{Engine: "bwrap", EngineNamed: bit(0), State: state, Fallback: fallback, Mode: mode, Approval: approval,
							Bypass: bit(1), AllowBypass: bit(2)}
						if bit(3) {
							bare.Losses = []shared.Loss{lacks}
						}
						if bit(4) {
							bare.Losses = append(bare.Losses, lacks)
							bare.Losses[0].Accepted = true
						}
						for words := range 1 << 5 {
							full := bare
							if words&1 != 0 {
								full.Filesystem = shared.FilesystemHost
							}
							if words&2 != 0 {
								full.Network = shared.NetworkHost
							}
							if words&4 != 0 {
								full.ModeOrigin = "SBXHOST_APPROVAL_MODE"
							}
							if words&8 != 0 {
								full.Sensitive = []string{"/work/.env"}
							}
							if words&16 != 0 {
								full.Reason, full.Fix = "no namespaces", "a fix"
							}
							count++
							f(full, bare)
						}
					}
				}
			}
		}
	}
	return count
}

func TestInvariants(t *testing.T) {
	t.Parallel()
	outcomes, rules := map[Outcome]int{}, map[Rule]int{}
	var bareFacts Facts
	var bareDecision Decision
	count := everyFacts(func(f, bare Facts) {
		d := Decide(f)
		if f.Filesystem == 0 && f.Network == 0 && f.ModeOrigin == "" && f.Sensitive == nil && f.Reason == "" {
			bareFacts, bareDecision = bare, d
		}
		outcomes[d.Outcome]++
		rules[d.Rule]++
		fail := func(format string, args ...any) {
			t.Helper()
			t.Errorf("%+v\n  gives %v:\n  %s", f, d, fmt.Sprintf(format, args...))
		}
		approved := f.Approval == ApprovedOnce || f.Approval == ApprovedSession || f.Approval == ApprovedAlways
		named := !f.Bypass && f.State == EngineUnconfined && f.EngineNamed
		switch {
		case d.Rule == "" || d.Reason == "":
			fail("it gives no reason")
		case d.Outcome == Unsandboxed && !approved && f.Mode != ModeAlways && !named:
			fail("nobody has approved that")
		case d.Outcome == Unsandboxed && f.Mode != ModeAsk && f.Mode != ModeAlways:
			fail("the mode forbids it")
		case d.Outcome != Denied && f.Bypass && !f.AllowBypass:
			fail("a bypass that is not allowed")
		case d.Outcome == Sandboxed && f.Bypass:
			fail("not what was asked")
		case d.Outcome == Sandboxed && f.State != EngineIsolates:
			fail("the engine does not isolate")
		case d.Outcome == Sandboxed && slices.ContainsFunc(f.Losses, func(l shared.Loss) bool { return !l.Accepted }):
			fail("the engine cannot hold what is asked")
		case d.Outcome == Unsandboxed && !f.Bypass && f.State == EngineIsolates:
			fail("the engine works and nobody asked for a bypass")
		case d.Outcome == Unsandboxed && !f.Bypass && f.State == EngineUnavailable &&
			(f.Fallback == FallbackDeny || f.Fallback == FallbackDefault && f.EngineNamed):
			fail("the fallback is deny")
		case d.Outcome != Denied && (f.State < EngineUnknown || f.State > EngineUnconfined) && !f.Bypass:
			fail("there is no such state")
		case d.Ask && (d.Outcome != Denied || f.Mode != ModeAsk || f.Approval != NoApproval):
			fail("it asks in vain")
		case d.Outcome == Unsandboxed && f.Sensitive != nil && d.Sensitive == nil:
			fail("it is silent on files that hold secrets")
		case d.Outcome == Unsandboxed && len(d.Exposure) == 0:
			fail("it is silent on what the command gets")
		case d.Outcome != bareDecision.Outcome || d.Rule != bareDecision.Rule || d.Ask != bareDecision.Ask:
			fail("%+v gives %v", bareFacts, bareDecision)
		case d.Rule == RuleModeDeny && f.ModeOrigin != "" && !strings.Contains(d.Reason, f.ModeOrigin):
			fail("it does not say who forbids it")
		case len(d.Exposure) > 0 && slices.ContainsFunc(d.Exposure, func(s string) bool { return strings.HasPrefix(s, "the network") }) != (f.Network == shared.NetworkNone):
			fail("it is wrong on the network")
		case len(d.Exposure) > 0 && strings.Contains(d.Exposure[0], "shows read-only") != (f.Filesystem == shared.FilesystemHost):
			fail("it is wrong on the files")
		}
		if d.Ask {
			// An approval, and only one, turns the answer round.
			for answer, want := range map[Approval]Outcome{Refused: Denied, ApprovedOnce: Unsandboxed, ApprovedSession: Unsandboxed, ApprovedAlways: Unsandboxed} {
				g := f
				g.Approval = answer
				if got := Decide(g); got.Outcome != want || got.Ask {
					fail("the answer %v then gives %+v", answer, got)
				}
			}
		}
		if f.Mode == ModeDeny && d.Outcome == Unsandboxed {
			fail("the mode is deny")
		}
	})
	if len(outcomes) != 3 || count != 6*4*5*7*32*32 {
		t.Errorf("%d facts lead to %v", count, outcomes)
	}
	for _, r := range []Rule{RuleEngineIsolates, RuleEngineNamed, RuleModeAlways, RuleApprovedOnce, RuleApprovedSession,
		RuleApprovedAlways, RuleApprovalNeeded, RuleApprovalRefused, RuleModeDeny, RuleFallbackDeny, RuleBypassNotAllowed,
		RuleFeatureMissing, RuleUnconfinedAuto, RuleNoEngine, RuleInvalid} {
		if rules[r] == 0 {
			t.Errorf("nothing leads to the rule %s", r)
		}
		delete(rules, r)
	}
	if len(rules) > 0 {
		t.Errorf("rules without a name: %v", rules)
	}
}

// A program that writes Mode("ask") learns why there is no such mode.
func TestUnknownMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{"ask", "maybe"} {
		d := Decide(Facts{State: EngineIsolates, Mode: mode})
		if d.Outcome != Denied || d.Rule != RuleInvalid || d.Reason != fmt.Sprintf("there is no mode %q", string(mode)) || !strings.Contains(d.Hint, `"", which asks`) {
			t.Errorf("%+v", d)
		}
	}
}

func TestZeroDenies(t *testing.T) {
	t.Parallel()
	if (Decision{}).Outcome != Denied || (Decision{}).Ask {
		t.Error("the zero Decision does not deny")
	}
	if d := Decide(Facts{}); d.Outcome != Denied || d.Rule != RuleNoEngine {
		t.Errorf("the zero Facts give %+v", d)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	broken := Facts{Engine: "bwrap", State: EngineUnavailable, Reason: "user namespaces are switched off", Fix: "switch them on"}
	with := func(f Facts, change func(*Facts)) Facts {
		change(&f)
		return f
	}
	for name, c := range map[string]struct {
		facts   Facts
		outcome Outcome
		rule    Rule
		says    string
	}{
		"works":         {Facts{Engine: "bwrap", State: EngineIsolates}, Sandboxed, RuleEngineIsolates, `engine "bwrap" isolates`},
		"named deny":    {with(broken, func(f *Facts) { f.EngineNamed = true }), Denied, RuleFallbackDeny, "user namespaces are switched off"},
		"auto asks":     {broken, Denied, RuleApprovalNeeded, "user namespaces are switched off"},
		"named approve": {with(broken, func(f *Facts) { f.EngineNamed, f.Fallback, f.Approval = true, FallbackApprove, ApprovedSession }), Unsandboxed, RuleApprovedSession, "does not work here"},
		"auto always":   {with(broken, func(f *Facts) { f.Mode = ModeAlways }), Unsandboxed, RuleModeAlways, "does not work here"},
		"mode deny": {with(broken, func(f *Facts) {
			f.Mode, f.ModeOrigin, f.Approval = ModeDeny, "SBXHOST_APPROVAL_MODE", ApprovedAlways
		}), Denied, RuleModeDeny, `SBXHOST_APPROVAL_MODE = "deny"`},
		"bypass":            {Facts{Engine: "bwrap", State: EngineIsolates, Bypass: true}, Denied, RuleBypassNotAllowed, "does not allow"},
		"allowed bypass":    {Facts{Engine: "bwrap", State: EngineIsolates, Bypass: true, AllowBypass: true}, Denied, RuleApprovalNeeded, "the caller asked to skip the sandbox"},
		"named noop":        {Facts{Engine: "noop", State: EngineUnconfined, EngineNamed: true}, Unsandboxed, RuleEngineNamed, "names engine"},
		"noop in mode deny": {Facts{Engine: "noop", State: EngineUnconfined, EngineNamed: true, Mode: ModeDeny}, Denied, RuleModeDeny, "the mode of approvals"},
		"noop by accident":  {Facts{Engine: "x", State: EngineUnconfined}, Denied, RuleUnconfinedAuto, "does not isolate"},
	} {
		d := Decide(c.facts)
		if d.Outcome != c.outcome || d.Rule != c.rule || !strings.Contains(d.Reason, c.says) {
			t.Errorf("%s: %+v", name, d)
		}
	}
	if d := Decide(broken); d.Hint != "switch them on" {
		t.Errorf("the fix is lost: %+v", d)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for _, m := range []Mode{ModeAsk, ModeAlways, ModeDeny} {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if m, err := ParseMode("Always"); err == nil || m != ModeDeny {
		t.Errorf("a mode that there is not: %v, %v", m, err)
	}
}
