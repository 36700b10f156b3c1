package shared

import (
	"encoding/json"

	"github.com/sbxhost/sbxhost/internal/wire"
)

// MarshalJSON returns the output of `ENGINE describe`: an object with name, version, protocol, doc,
// features, and the options as attributes. Every list is present, even if empty.
func (i Info) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name       string            `json:"name"`
		Version    string            `json:"version"`
		Protocol   uint              `json:"protocol"`
		Doc        string            `json:"doc"`
		Features   Features          `json:"features"`
		Attributes []OptionAttribute `json:"attributes"`
	}{i.Name, i.Version, wire.Handshake.ProtocolVersion, i.Doc,
		append(Features{}, i.Features...), append([]OptionAttribute{}, i.Options.Attributes...)})
}
