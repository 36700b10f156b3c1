// Package wire is what both ends of the engine protocol must agree on: how they know
// each other, the names of variables, and the forms that engine.proto leaves open.
// docs/protocol.md describes them for engines in other languages. Package shared has
// the engine's end, and package dial the host's.
package wire

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// PluginName is the name under which go-plugin has an engine.
const PluginName = "engine"

// Handshake is how host and engine know each other: a [plugin.HandshakeConfig], without what go-plugin
// would link into programs that speak to no engine.
// The cookie is no secret: it tells a person who starts an engine by hand from
// a host. It is not to be changed.
var Handshake = struct {
	ProtocolVersion                  uint
	MagicCookieKey, MagicCookieValue string
}{
	ProtocolVersion:  2,
	MagicCookieKey:   "SBXHOST_ENGINE",
	MagicCookieValue: "5b0f8e0e7d1c4a6fb3c2a99d4f1e62d8c7a35e1190b64d27",
}

// ChannelEnv names the variable with the number of the descriptor that is the
// engine's end of the channel: one of a pair of connected stream sockets. The host
// sends the files of a command's stdio over it. And its end of file tells the engine
// that the host is gone, however the host died: no other process has a copy of the
// host's end.
const ChannelEnv = "SBXHOST_CHANNEL"

// A FilesToken is one message on the channel, with up to three descriptors attached
// to its first byte: the request of a command names its files by it. The same token
// again, with none, takes them back.
type FilesToken [16]byte

// TokenEnv names the variable with the token that the host's calls carry, as metadata
// of the key TokenKey. The engine's socket is a file for as long as the host needs to
// connect, and a command of the same user that sees the directory, by a bind of /tmp
// say, could ask the engine for a sandbox of its own choice. Commands see neither the
// environment nor the memory of processes outside.
const (
	TokenEnv = "SBXHOST_TOKEN"
	TokenKey = "sbxhost-token"
)

// ProcessorsEnv names the variable by which Go's runtime starts with so many
// processors. What an engine does is to pass on and to wait: waking a second one
// for each step costs a tenth of a command's time.
const ProcessorsEnv = "GOMAXPROCS"

// OnceEnv names the variable that tells our engines, where it is there, that the host runs one command
// and ends. It is about speed alone.
const OnceEnv = "SBXHOST_ENGINE_ONCE"

// TempDirPrefix begins the name of a private directory for sockets. What lies there
// under such a name for an hour is removed by a host.
const TempDirPrefix = "sbxhost-"

// MaxMessage bounds one message: a command with a long script, or a Spec with a long
// table.
const MaxMessage = 64 << 20

// MaxEvent bounds what a host reads of a command's call: an event that is longer than MaxMessage, which
// it drops, does not end the command.
const MaxEvent = 4 * MaxMessage

// ReattachEnv names the variable that has a host attach to engines that somebody has
// started, under a debugger as a rule, in place of starting its own: a JSON object of
// [Reattach] by engine name, as the engine's -debug flag prints it.
const ReattachEnv = "SBXHOST_REATTACH_ENGINES"

// Reattach says how to reach an engine that was started with -debug. Whoever
// knows it can ask that engine for sandboxes of any kind.
type Reattach struct {
	Protocol uint   `json:"protocol"` // Handshake.ProtocolVersion of the engine
	PID      int    `json:"pid"`      // for people
	Socket   string `json:"socket"`   // absolute path
	Token    string `json:"token"`    // what calls have to carry
}

// ChannelSocket is the path of the socket on which such an engine takes channels,
// which is not longer than that of the other.
func (r Reattach) ChannelSocket() string { return filepath.Join(filepath.Dir(r.Socket), "channel") }

// ParseReattach reads the value of [ReattachEnv]. Empty text means no engine. The
// error names the variable, and the engine whose value is wrong or which speaks
// another version of the protocol.
func ParseReattach(text string) (map[string]Reattach, error) {
	if text == "" {
		return nil, nil
	}
	var engines map[string]Reattach
	if err := json.Unmarshal([]byte(text), &engines); err != nil {
		return nil, fmt.Errorf("%s: %w: it takes what an engine's -debug flag prints", ReattachEnv, err)
	}
	for name, r := range engines {
		switch {
		case !filepath.IsAbs(r.Socket):
			return nil, fmt.Errorf("%s: engine %q: socket %q is not an absolute path", ReattachEnv, name, r.Socket)
		case r.Protocol != Handshake.ProtocolVersion:
			return nil, fmt.Errorf("%s: engine %q speaks protocol version %d, and this program version %d",
				ReattachEnv, name, r.Protocol, Handshake.ProtocolVersion)
		}
	}
	return engines, nil
}

// Text makes s fit for a protobuf string, which must be UTF-8: one bad byte in
// a file name would otherwise make the whole message, and with it the error it
// tells of, impossible to send.
func Text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// TextMap is [Text] of each key and value; nothing becomes nil.
func TextMap(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[Text(k)] = Text(v)
	}
	return out
}

// List translates a list; an empty one becomes nil, as it does on the wire.
func List[A, B any](in []A, translate func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = translate(v)
	}
	return out
}

// ToBytes is for paths, arguments and variables, which need not be UTF-8.
func ToBytes(s string) []byte { return []byte(s) }

// FromBytes undoes [ToBytes].
func FromBytes(b []byte) string { return string(b) }
