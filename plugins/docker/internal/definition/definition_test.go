package definition

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/shared"
)

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := Parse([]byte(`{"image":"node:20","pull":"always","platform":"linux/arm/v7","user":"1000:1000","cap_add":["net_raw","CAP_CHOWN"],
		"writable_root":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if o.Image != "node:20" || o.Pull != "always" || !reflect.DeepEqual(o.ImagePlatform, &ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}) || o.User != "1000:1000" ||
		strings.Join(o.CapAdd, " ") != "CAP_NET_RAW CAP_CHOWN" || !o.WritableRoot {
		t.Errorf("got %+v", o)
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	t.Parallel()
	for raw, attribute := range map[string]string{
		`[]`:                                  "config",
		``:                                    "config.image",
		`{}`:                                  "config.image",
		`{"image":""}`:                        "config.image",
		`{"image":1}`:                         "config.image",
		`{"image":"a","pull":"sometimes"}`:    "config.pull",
		`{"image":"a","platform":"arm64"}`:    "config.platform",
		`{"image":"a","platform":"x/y"}`:      "config.platform",
		`{"image":"a","writable_root":"yes"}`: "config.writable_root",
		`{"image":"a","cap_add":["ALL"]}`:     "config.cap_add[0]",
		`{"image":"a","cap_add":["x y"]}`:     "config.cap_add[0]",
		`{"image":"a","cap_add":["CHOWN","SYS_ADMIN"]}`: "config.cap_add[1]",
		`{"image":"a","cap_add":["cap_setfcap"]}`:       "config.cap_add[0]",
	} {
		_, err := Parse([]byte(raw))
		e, ok := errors.AsType[*shared.Error](err)
		if !ok || e.Attribute != attribute || e.Kind == nil {
			t.Errorf("%s: got %v", raw, err)
		}
	}
}

func TestParseOptionsWrongTypes(t *testing.T) {
	t.Parallel()
	for raw, message := range map[string]string{
		`{"image":["a"]}`:                     "config.image: a JSON array does not fit there",
		`{"image":"a","pull":true}`:           "config.pull: a JSON bool does not fit there",
		`{"image":"a","user":1000}`:           "config.user: a JSON number does not fit there",
		`{"image":"a","cap_add":"CHOWN"}`:     "config.cap_add: a JSON string does not fit there",
		`{"image":"a","cap_add":[1]}`:         "config.cap_add: a JSON number does not fit there",
		`{"image":"a","writable_root":{}}`:    "config.writable_root: a JSON object does not fit there",
		`{"image":"a","writable_root":"yes"}`: "config.writable_root: a JSON string does not fit there",
	} {
		_, err := Parse([]byte(raw))
		if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute+": "+e.Message != message {
			t.Errorf("%s: got %v", raw, err)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `{"image":"a"}`, `{"image":"a","cap_add":["CHOWN"]}`, `{"image":"x","platform":"linux/amd64"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		o, err := Parse(raw)
		if err != nil {
			if e, ok := errors.AsType[*shared.Error](err); !ok || !strings.HasPrefix(e.Attribute, "config") {
				t.Errorf("an error without its place: %v", err)
			}
			return
		}
		if o.Image == "" {
			t.Error("nothing to run")
		}
	})
}
