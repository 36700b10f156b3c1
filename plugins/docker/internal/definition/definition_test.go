package definition

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/shared"
)

func TestParseOptions(t *testing.T) {
	t.Parallel()
	o, err := Parse([]byte(`{"image":"node:20","pull":"always","platform":"linux/arm/v7","user":"1000:1000","cap_add":["net_raw","CAP_CHOWN"],
		"reuse":true,"writable_root":true,"resources":{"memory":"1.5GiB","cpu":0.5,"pids":100},
		"cache":{"paths":["/root/.npm"],"scope":"user","ttl":"2h"},"compose":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if o.Image != "node:20" || o.Pull != "always" || !reflect.DeepEqual(o.ImagePlatform, &ocispec.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}) || o.User != "1000:1000" ||
		strings.Join(o.CapAdd, " ") != "CAP_NET_RAW CAP_CHOWN" || !o.Reuse || !o.WritableRoot ||
		o.limit != (shared.Limits{Memory: 3 << 29, CPUs: 0.5, PIDs: 100}) ||
		len(o.Cache.Paths) != 1 || o.Cache.Scope != "user" || o.Cache.Lasting != 2*time.Hour {
		t.Errorf("got %+v", o)
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	t.Parallel()
	for raw, attribute := range map[string]string{
		`[]`:                               "config",
		``:                                 "config.image",
		`{}`:                               "config.image",
		`{"image":""}`:                     "config.image",
		`{"image":1}`:                      "config.image",
		`{"image":"a","dockerfile":"b"}`:   "config.dockerfile",
		`{"compose":"f.yml"}`:              "config.service",
		`{"image":"a","service":"s"}`:      "config.service",
		`{"image":"a","pull":"sometimes"}`: "config.pull",
		`{"image":"a","platform":"arm64"}`: "config.platform",
		`{"image":"a","platform":"x/y"}`:   "config.platform",
		`{"image":"a","reuse":"yes"}`:      "config.reuse",
		`{"image":"a","cap_add":["ALL"]}`:  "config.cap_add[0]",
		`{"image":"a","cap_add":["x y"]}`:  "config.cap_add[0]",
		`{"image":"a","cap_add":["CHOWN","SYS_ADMIN"]}`:           "config.cap_add[1]",
		`{"image":"a","resources":[]}`:                            "config.resources",
		`{"image":"a","resources":{"memory":512}}`:                "config.resources.memory",
		`{"image":"a","resources":{"memory":"lots"}}`:             "config.resources.memory",
		`{"image":"a","resources":{"cpu":0}}`:                     "config.resources.cpu",
		`{"image":"a","resources":{"cpu":-1}}`:                    "config.resources.cpu",
		`{"image":"a","resources":{"pids":0}}`:                    "config.resources.pids",
		`{"image":"a","resources":{"pids":1.5}}`:                  "config.resources.pids",
		`{"image":"a","cache":{"paths":["x"]}}`:                   "config.cache.paths[0]",
		`{"image":"a","cache":{"paths":["/x","/x"]}}`:             "config.cache.paths[1]",
		`{"image":"a","cache":{"paths":["/x/.."]}}`:               "config.cache.paths[0]",
		`{"image":"a","cache":{"paths":["/x"],"scope":"global"}}`: "config.cache.scope",
		`{"image":"a","cache":{"paths":["/x"],"ttl":"soon"}}`:     "config.cache.ttl",
		`{"image":"a","cache":{"paths":["/x"],"ttl":"-1h"}}`:      "config.cache.ttl",
	} {
		_, err := Parse([]byte(raw))
		e, ok := errors.AsType[*shared.Error](err)
		if !ok || e.Attribute != attribute || e.Kind == nil {
			t.Errorf("%s: got %v", raw, err)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for size, want := range map[string]uint64{
		"1": 1, "10b": 10, "512m": 512 << 20, "512 MiB": 512 << 20, "1.5GiB": 3 << 29, "2k": 2048, "1T": 1 << 40, "64Mb": 64 << 20,
		"0": 0, "-1": 0, "m": 0, "0x10": 0, "inf": 0, "NaN": 0, "1gg": 0, "1 2": 0, "9999999999T": 0,
	} {
		o, err := Parse([]byte(`{"image":"a","resources":{"memory":"` + size + `"}}`))
		if (err == nil) != (want != 0) || err == nil && o.limit.Memory != want {
			t.Errorf("%q: %+v, %v", size, o, err)
		}
	}
}

func TestLimitsMustAgree(t *testing.T) {
	t.Parallel()
	o := &Options{limit: shared.Limits{Memory: 100, CPUs: 2, PIDs: 5}}
	l, err := o.Limits(&shared.Spec{Limits: shared.Limits{Memory: 100, OpenFiles: 7}})
	if err != nil || l != (shared.Limits{Memory: 100, CPUs: 2, PIDs: 5, OpenFiles: 7}) {
		t.Errorf("got %+v, %v", l, err)
	}
	for attribute, limits := range map[string]shared.Limits{
		"config.resources.memory": {Memory: 200}, "config.resources.cpu": {CPUs: 1}, "config.resources.pids": {PIDs: 4},
	} {
		_, err := o.Limits(&shared.Spec{Limits: limits})
		if e, ok := errors.AsType[*shared.Error](err); !ok || e.Attribute != attribute {
			t.Errorf("%s: got %v", attribute, err)
		}
	}
}

func FuzzParseOptions(f *testing.F) {
	for _, seed := range []string{`{}`, `null`, `{"image":"a"}`, `{"image":"a","resources":{"memory":"1g","cpu":1,"pids":2}}`,
		`{"image":"a","cache":{"paths":["/x"]},"cap_add":["CHOWN"]}`, `{"dockerfile_inline":"FROM x","platform":"linux/amd64"}`} {
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
		if o.Image == "" && o.Dockerfile == "" && o.Inline == "" && o.Compose == "" {
			t.Error("nothing to run")
		}
	})
}
