// Package config reads sbxhost's configuration: it finds the file, turns HCL into [host.Options],
// and reports each error with its line and what to do. Only it and package source know HCL.
//
// # Promise
//
//   - It ignores nothing. A name that is unknown, misspelled or defined twice is an error, and so
//     is a value of the wrong type.
//   - One run reports all errors. Only a file that is not HCL has nothing but its syntax errors.
//   - Every diagnostic has a range in the file.
//   - No diagnostic shows the value of a variable, or a value that the caller of [DecodeSandbox]
//     has marked. No text of a file reaches a terminal as a control sequence.
//   - A file with a hostile form is refused before it is parsed: too long, with too many brackets,
//     not text, or with characters that hide its meaning.
//
// # Limits
//
// Reading a file evaluates its expressions. They have no effects, but they see the environment, and
// can use much time and memory. Use the [Origin] from [Find] to decide whether to read a file of a
// workspace at all.
//
// [File.Diagnose] does not show why a value that comes from a variable is refused. It shows an
// error without an attribute in the host's words.
//
// This package checks the form of paths, and package host what they lead to. HCL
// converts strings to Unicode's NFC, so a file whose name is not NFC cannot be named.
package config
