// Package config reads sbxhost's configuration: it finds the file, turns HCL
// into [host.Options] and says what is wrong with it, with the line and what
// to do. It and package source below it are the only ones that know HCL.
//
// # Promise
//
//   - Nothing is ignored. What is unknown, misspelled, of the wrong type or
//     defined twice is an error.
//   - All errors that can be found are reported in one run. Only a file that
//     is not HCL at all is reported for its syntax alone.
//   - Every diagnostic has a range in the file.
//   - No value of a variable appears in a diagnostic, nor one that the caller of
//     [DecodeSandbox] has marked. Nothing that a file holds reaches a terminal as
//     a control sequence.
//   - A file that is hostile in form (too long, nested too deeply, not text,
//     with characters that make it read differently from what it means) is
//     refused before it is parsed.
//
// # Limits
//
// Reading a file evaluates its expressions. They have no effects, but can be
// written to take long and to use much memory, and they see the environment:
// whether a file found in a workspace may be read at all is for the caller to
// settle first, from the [Origin] that [Find] gives.
//
// [File.Diagnose] does not show why a value that comes of a variable is refused. An
// error that names no attribute is shown as the host words it.
//
// Paths are checked by form here and by what they lead to in package host. HCL
// normalises strings to Unicode's NFC; a file whose name is not in that form
// cannot be named.
package config
