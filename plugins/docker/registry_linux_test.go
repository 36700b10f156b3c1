package docker

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// A privateRegistry serves one image, at t/image:1, to whoever knows the password.
type privateRegistry struct{ address string }

const (
	registryUser     = "somebody"
	registryPassword = "pass:word"
)

func servePrivate(t *testing.T) *privateRegistry {
	t.Helper()
	l, err := daemonFor(t).Listen()
	if err != nil {
		t.Fatal(err)
	}
	r := &privateRegistry{address: l.Addr().(*net.TCPAddr).String()}
	blobs := map[string][]byte{}
	add := func(content []byte) (digest string, size int) {
		sum := sha256.Sum256(content)
		digest = "sha256:" + hex.EncodeToString(sum[:])
		blobs[digest] = content
		return digest, len(content)
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatal(err)
	}
	var layer, packed bytes.Buffer
	w := tar.NewWriter(&layer)
	for name, content := range map[string][]byte{"bin/sh": busybox, "private": []byte("for those who may\n")} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	z := gzip.NewWriter(&packed)
	z.Write(layer.Bytes())
	z.Close()
	sum := sha256.Sum256(layer.Bytes())
	config, configSize := add(fmt.Appendf(nil, `{"architecture":%q,"os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":["sha256:%x"]}}`, runtime.GOARCH, sum))
	content, size := add(packed.Bytes())
	const kind = "application/vnd.docker.distribution.manifest.v2+json"
	manifest := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.docker.container.image.v1+json","size":%d,"digest":%q},`+
		`"layers":[{"mediaType":"application/vnd.docker.image.rootfs.diff.tar.gzip","size":%d,"digest":%q}]}`, kind, configSize, config, size, content)
	digest, _ := add(manifest)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if user, password, ok := q.BasicAuth(); !ok || user != registryUser || password != registryPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, name, _ := strings.Cut(q.URL.Path, "/v2/t/image/")
		kindOf, at, _ := strings.Cut(name, "/")
		if at == "1" {
			at = digest
		}
		blob, ok := blobs[at]
		switch {
		case q.URL.Path == "/v2/":
			return
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			return
		case kindOf == "manifests":
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Docker-Content-Digest", at)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(blob)))
		if q.Method == http.MethodGet {
			w.Write(blob)
		}
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return r
}

// TestPrivateRegistry fetches an image that takes a login, from where Docker's own
// command line keeps it.
func TestPrivateRegistry(t *testing.T) {
	t.Parallel()
	r := servePrivate(t)
	image := r.address + "/t/image:1"
	inFile := base64.StdEncoding.EncodeToString([]byte(registryUser + ":" + registryPassword))
	for name, tt := range map[string]struct {
		config  map[string]any
		helper  string // script of docker-credential-test
		options opts
		fails   string
	}{
		"nobody":              {nil, "", opts{"image": image, "pull": "always"}, "could not fetch it"},
		"a login in the file": {map[string]any{"auths": opts{r.address: opts{"auth": inFile}}}, "", opts{"image": image, "pull": "always"}, ""},
		"of another registry": {map[string]any{"auths": opts{"other.example": opts{"auth": inFile}}}, "", opts{"image": image, "pull": "always"}, "could not fetch it"},
		"a helper": {map[string]any{"credHelpers": opts{r.address: "test"}},
			`of=$(cat); [ "$1 $of" = "get ` + r.address + `" ] && echo '{"Username":"` + registryUser + `","Secret":"` + registryPassword + `"}'`, opts{"image": image, "pull": "always"}, ""},
		"a store that has none": {map[string]any{"credsStore": "test"}, "echo credentials not found in native keychain; exit 1", opts{"image": image, "pull": "always"}, "could not fetch it"},
		"a helper that fails":   {map[string]any{"credsStore": "test"}, "echo secret; exit 1", opts{"image": image, "pull": "always"}, "docker-credential-test: exit status 1"},
		"no such helper":        {map[string]any{"credsStore": "nosuch"}, "", opts{"image": image, "pull": "always"}, "docker-credential-nosuch: is not in"},
		"a build": {map[string]any{"auths": opts{r.address: opts{"auth": inFile}}}, "",
			opts{"dockerfile_inline": "FROM " + image + " AS base\nENV X=" + t.Name() + "\n", "pull": "always"}, ""},
	} {
		e := newEngine(t)
		home := e.surroundings.getenv("HOME")
		if tt.config != nil {
			raw, err := json.Marshal(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(home, ".docker"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(home, ".docker/config.json"), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		e.surroundings.helpers = []string{home}
		if tt.helper != "" {
			if err := os.WriteFile(filepath.Join(home, "docker-credential-test"), []byte("#!/bin/sh\n"+tt.helper+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		s, _, err := opened(t, e, shared.Spec{Options: rawOptions(t, tt.options)})
		switch {
		case tt.fails != "":
			if err == nil || !strings.Contains(err.Error(), tt.fails) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: got %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		default:
			if out := sh(t, s, "read x < /private; echo $x"); out.stdout != "for those who may\n" {
				t.Errorf("%s: got %+v", name, out)
			}
		}
	}
}
