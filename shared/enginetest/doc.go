// Package enginetest is the conformance kit for engines: it says whether an
// engine behaves as package shared demands, and whether it isolates what it
// claims to.
//
// # Probes
//
// A probe tries one thing inside a sandbox: to read a file that no mount shows, to
// enter a new user namespace, to reach the host's loopback. It makes the very
// system calls, by this package's own code, which runs inside because the
// testing program is shown there read-only and executed again (see [Hook]).
//
// Each probe has a control, which shows the same action succeeding where the
// definition grants it or where there is no sandbox. So "denied" cannot mean
// "broken": a probe whose control fails does not count as held. What the
// machine refuses to everybody is [NotApplicable], and what the engine's
// Features do not claim is [Skipped].
//
// A probe that leaks leaves the machine as it was: kernel settings are written
// with the value they have, signals to foreign processes have the number 0, and
// what is mounted is unmounted. Probes may therefore be run on any machine,
// as root too.
//
// # macOS
//
// Nothing of the kit runs for an engine of macOS on another system. [MacTrials]
// says what each probe does there, as data, so that an engine which has a model of
// its profiles can be asked everywhere.
//
// # Contract
//
// The other cases hold the engine to the rules of the interfaces: exact statuses,
// streams, cancellation, misuse, what [shared.Engine.Open] must refuse.
//
// # Use
//
// In an engine's test package:
//
//	func TestMain(m *testing.M) { enginetest.Main(m) }
//
//	func TestConformance(t *testing.T) { enginetest.Run(t, myengine.New()) }
//
//	func TestBinary(t *testing.T) { enginetest.RunBinary(t, "/path/of/sbxhost-engine-mine") }
//
// An engine that needs options of its own gets them by Options.EngineOptions, and
// one whose sandboxes show another system's files a program that needs none of
// them by Options.Program.
//
// A program calls [Hook] first in its main and then [New] and [Suite.Run].
//
// # Limits
//
// A probe shows that one way is closed, not that there is no other. The kit
// asks the engine alone: what the host decides - which paths are hidden, which
// binds are refused, what environment is computed - has tests of its own. Probes
// for Linux need a static program or one whose libraries the sandbox shows.
package enginetest
