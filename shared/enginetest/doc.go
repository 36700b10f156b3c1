// Package enginetest is the conformance kit for engines. It tests whether an engine behaves as
// package shared demands, and whether it isolates what it claims.
//
// # Probes
//
// A probe tries one action inside a sandbox: to read a file that no mount shows, to enter a new
// user namespace, to reach the host's loopback. It makes the system calls itself: the testing
// program is shown inside, read-only, and executed again (see [Hook]).
//
// Each probe has a control, in which the same action succeeds because the definition permits it or
// there is no sandbox. So "denied" cannot mean "broken": a probe whose control fails is not Held.
// What the machine refuses to everybody is [NotApplicable]. What the engine's Features do not claim
// is [Skipped].
//
// A probe that leaks leaves the machine unchanged: it writes kernel settings with their current
// value, sends foreign processes only signal 0, and unmounts what it mounts. Probes may run on any
// machine, also as root.
//
// # macOS
//
// The kit cannot run an engine for macOS on another system. [MacTrials] describes each macOS probe
// as data, so that an engine with a model of its profiles can test it everywhere.
//
// # Contract
//
// The other cases test the rules of the interfaces: exact statuses, streams, cancellation, misuse,
// and what [shared.Engine.Open] must refuse.
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
// Use Options.EngineOptions for an engine that needs options, and Options.Program, with a program
// that needs no files, for one whose sandboxes show another system's files.
//
// A program calls [Hook] first in its main and then [New] and [Suite.Run].
//
// # Limits
//
// A probe shows that one way is closed, not that there is no other. The kit tests only the engine;
// the host's decisions (hidden paths, refused binds, the environment) have their own tests. Probes
// for Linux need a static program, or one whose libraries the sandbox shows.
package enginetest
