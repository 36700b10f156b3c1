package main

import (
	"testing"

	"github.com/sbxhost/sbxhost/host"
)

func TestImageAtHand(t *testing.T) {
	t.Parallel()
	sandboxes := map[string]host.Definition{
		"a": {Engine: "bwrap", Config: []byte(`{"image":"not-docker's"}`)},
		"b": {Engine: "docker", Config: []byte(`{"dockerfile":"Dockerfile"}`)},
	}
	if got := imageAtHand(sandboxes); got != nil {
		t.Errorf("got %s", got)
	}
	sandboxes["d"] = host.Definition{Engine: "docker", Config: []byte(`{"image":"y:1"}`)}
	sandboxes["c"] = host.Definition{Engine: "docker", Config: []byte(`{"image":"x:1","pull":"always","reuse":true,"platform":"linux/arm64"}`)}
	if got := string(imageAtHand(sandboxes)); got != `{"image":"x:1","platform":"linux/arm64","pull":"never"}` {
		t.Errorf("got %s", got)
	}
}
