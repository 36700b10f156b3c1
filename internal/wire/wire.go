// Package wire has what both sides of the engine protocol must agree on: their handshake, the names
// of variables, and the forms that engine.proto leaves open. docs/protocol.md describes them for
// engines in other languages. Package shared has the engine's side, and package dial the host's.
package wire

// Handshake is how host and engine recognize each other: a [plugin.HandshakeConfig], without the
// go-plugin code that programs without an engine do not need. The cookie is no secret: it
// distinguishes a host from a person who starts an engine by hand. It must not change.
var Handshake = struct {
	ProtocolVersion                  uint
	MagicCookieKey, MagicCookieValue string
}{
	ProtocolVersion:  2,
	MagicCookieKey:   "SBXHOST_ENGINE",
	MagicCookieValue: "5b0f8e0e7d1c4a6fb3c2a99d4f1e62d8c7a35e1190b64d27",
}

// ChannelEnv names the variable with the descriptor number of the engine's side of the channel, one
// of a pair of connected stream sockets. The host sends the files of a command's stdio over it. Its
// end of file tells the engine that the host is gone, in whichever way the host died: no other
// process has a copy of the host's side.
const ChannelEnv = "SBXHOST_CHANNEL"

// A FilesToken is one message on the channel, with up to three descriptors attached to its first
// byte: a command's request names its files by this token. The same token without descriptors
// withdraws them.
type FilesToken [16]byte

// TokenEnv names the variable with the token of the host's calls, which send it as metadata of the
// key TokenKey. The engine's socket is a file until the host has connected. A command of the same
// user that sees the directory, for example by a bind of /tmp, could otherwise ask the engine for
// any sandbox. Commands see neither the environment nor the memory of processes outside.
const (
	TokenEnv = "SBXHOST_TOKEN"
	TokenKey = "sbxhost-token"
)

// ProcessorsEnv names the variable with the number of processors for Go's runtime. An engine passes
// messages on and waits: to wake a second processor for each step costs a tenth of a command's
// time.
const ProcessorsEnv = "GOMAXPROCS"

// OnceEnv names the variable that, if set, tells sbxhost's engines that the host runs one command
// and ends. It only affects speed.
const OnceEnv = "SBXHOST_ENGINE_ONCE"

// TempDirPrefix begins the name of a private directory for sockets.
const TempDirPrefix = "sbxhost-"

// MaxMessage is the largest message, in bytes: a command with a long script, or a Spec with a long
// table.
const MaxMessage = 64 << 20

// MaxEvent is how much of one message of a command's call a host reads, in bytes. So an event
// longer than MaxMessage, which the host drops, does not end the command.
const MaxEvent = 4 * MaxMessage
