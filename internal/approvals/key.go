package approvals

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Key identifies exactly one command to approve.
type Key struct {
	Argv   []string `json:"argv"`             // or, with Script, its positional parameters
	Script string   `json:"script,omitempty"` // shell text; empty means none
	// Env is the digest, by DigestEnv, of the variables set for this command alone: the values may
	// be secrets.
	Env     string `json:"env_sha256,omitempty"`
	Dir     string `json:"dir"` // absolute
	Sandbox string `json:"sandbox"`
	// Definition is the digest, by DigestEnv, of what the sandbox's definition gives the command
	// without its sandbox. An earlier approval must not cover later credentials, or a variable that
	// makes programs load code.
	Definition string `json:"definition_sha256,omitempty"`
	Workspace  string `json:"workspace"` // its root
}

// DigestEnv returns the digest of "name=value" entries for a Key; "" for no entry. The order
// counts, because the last entry of a name does.
func DigestEnv(environ []string) string {
	if len(environ) == 0 {
		return ""
	}
	return hex.EncodeToString(digest(environ...))
}

// Digest identifies the key.
func (k *Key) Digest() string {
	fields := append([]string{"sbxhost approval", k.Script, k.Env, k.Dir, k.Sandbox, k.Definition, k.Workspace}, k.Argv...)
	return hex.EncodeToString(digest(fields...))
}

// digest distinguishes lists that a plain concatenation would not: ("a", "b c") and ("a b", "c").
func digest(fields ...string) []byte {
	h := sha256.New()
	var length [8]byte
	for _, f := range fields {
		binary.BigEndian.PutUint64(length[:], uint64(len(f)))
		h.Write(length[:])
		h.Write([]byte(f))
	}
	return h.Sum(nil)
}

// rawPrefix marks text that JSON cannot represent. Otherwise two different file names that are not
// UTF-8 could become equal.
const rawPrefix = "base64:"

func encodeText(s string) string {
	if utf8.ValidString(s) && !strings.HasPrefix(s, rawPrefix) {
		return s
	}
	return rawPrefix + base64.StdEncoding.EncodeToString([]byte(s))
}

func decodeText(s string) (string, error) {
	raw, ok := strings.CutPrefix(s, rawPrefix)
	if !ok {
		return s, nil
	}
	b, err := base64.StdEncoding.Strict().DecodeString(raw)
	if err != nil {
		return "", fmt.Errorf("%q: %w", s, err)
	}
	return string(b), nil
}
