package doctor

import (
	"encoding/json"
	"testing"
)

func TestImageAtHand(t *testing.T) {
	t.Parallel()
	configs := []json.RawMessage{[]byte(`{"pull":"never"}`), []byte(`null`)}
	if got := imageAtHand(configs); got != nil {
		t.Errorf("got %s", got)
	}
	configs = append(configs, []byte(`{"image":"x:1","pull":"always","writable_root":true,"platform":"linux/arm64"}`), []byte(`{"image":"y:1"}`))
	if got := string(imageAtHand(configs)); got != `{"image":"x:1","platform":"linux/arm64","pull":"never"}` {
		t.Errorf("got %s", got)
	}
}
