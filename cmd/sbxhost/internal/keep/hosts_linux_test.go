package keep

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/sbxhost/sbxhost/cmd/internal/inforce"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/cli"
	"github.com/sbxhost/sbxhost/cmd/sbxhost/internal/setup"
	"github.com/sbxhost/sbxhost/config"
	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/policy"
	"github.com/sbxhost/sbxhost/internal/testing/fields"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
)

// others are values of what package fields cannot make.
var others = map[reflect.Type][2]any{
	reflect.TypeFor[shared.Engine]():      {noop.New(), noop.New()},
	reflect.TypeFor[hclog.Logger]():       {hclog.New(nil), hclog.New(nil)},
	reflect.TypeFor[host.Approver]():      {host.Approver(nil), host.Approver(approve)},
	reflect.TypeFor[func([]byte) error](): {(func([]byte) error)(nil), func([]byte) error { return nil }},
}

func approve(context.Context, host.ApprovalRequest) (answer policy.Approval, err error) {
	return answer, nil
}

// first is the name of a sandbox.
func first(o host.Options) string { return slices.Sorted(maps.Keys(o.Sandboxes))[0] }

// A Host that is kept is for one value of each option. What is not in its key says why.
func TestKeyHasEachOption(t *testing.T) {
	t.Parallel()
	served := map[string]string{
		"OneShot":                    "a Host that is kept is for many commands",
		"Session.OneShot":            "so is its session",
		"Session.Each":               "they share nothing but a session that has a name",
		"Approver":                   "the client asks by itself",
		"Logger":                     "a client that wants one is not served",
		"Dir":                        "each command has its own, in one workspace",
		"Environ":                    "the Host says what it has read",
		"Environ[]":                  "the Host says what it has read",
		"Sandboxes[].Limits.Timeout": "each command has its own",
	}
	kept := map[string]string{
		"OneShot":                    served["OneShot"],
		"Session.OneShot":            "the commands share a session",
		"Approver":                   "what runs in a kept session is in its sandbox",
		"Logger":                     "a client's, which ends before the keeper",
		"Dir":                        "each command has its own",
		"Environ":                    "that of the first command is the session's",
		"Environ[]":                  "that of the first command is the session's",
		"Sandboxes[].Limits.Timeout": "each command has its own",
		"Credentials[].Value":        "it is renewed",
		"Credentials[].Env[]":        "it is renewed",
	}
	for _, path := range []string{"Umask", "Nice", "OOMScoreAdj", "CPUs", "CPUs[]", "Limits", "Limits[].Resource", "Limits[].Soft", "Limits[].Hard"} {
		kept["Usage."+path] = "that of the first command is the session's"
	}
	for name, c := range map[string]struct {
		without map[string]string
		key     func(host.Options) *hostKey
	}{
		"serve": {served, func(o host.Options) *hostKey {
			o.Workspace.Root = "/" + o.Workspace.Root
			s, root, err := servedSetup(&cli.App{}, &setup.Setup{Config: inforce.Config{File: &config.File{}, Options: o}, Sandbox: first(o)})
			if err != nil {
				t.Fatal(err)
			}
			return servedKey(s, root)
		}},
		"keeper": {kept, func(o host.Options) *hostKey {
			s := sharedSetup(&setup.Setup{Config: inforce.Config{File: &config.File{}, Options: o}, Sandbox: first(o)})
			return keeperKey(s, o.Credentials)
		}},
	} {
		seen := map[string]bool{}
		fields.Each(t, others, func(path string, plain, changed *host.Options) {
			seen[path] = true
			one, again, other := c.key(*plain), c.key(*plain), c.key(*changed)
			why, without := c.without[path]
			switch same := one.equal(other); {
			case !one.equal(again):
				t.Errorf("%s: two keys of the same options are not equal", name)
			case same && !without:
				t.Errorf("%s: with another %s a Host goes on with the old one", name, path)
			case !same && without:
				t.Errorf("%s: %s is said to be in no key, since %s", name, path, why)
			}
		})
		for path := range c.without {
			if !seen[path] {
				t.Errorf("%s: there is no option %s", name, path)
			}
		}
	}
}

// No server makes a Host of options that name what each process has for itself, wherever they do.
func TestPathsOfOneProcess(t *testing.T) {
	t.Parallel()
	const path = "/proc/self/fd/7"
	for name, change := range map[string]func(*host.Options, *host.Definition){
		"a directory": func(o *host.Options, _ *host.Definition) { o.Dir = path },
		"a list":      func(o *host.Options, _ *host.Definition) { o.Protected = []string{"/x", path} },
		"a bind":      func(_ *host.Options, d *host.Definition) { d.BindPaths = []host.Bind{{Host: path}} },
		"a variable":  func(_ *host.Options, d *host.Definition) { d.Env = map[string]string{"X": "x:" + path} },
		"an option":   func(_ *host.Options, d *host.Definition) { d.Config = []byte(`{"image": "` + path + `"}`) },
		"an engine": func(o *host.Options, _ *host.Definition) {
			o.Engines = map[string]host.EngineSource{"x": {Source: path}}
		},
	} {
		var o host.Options
		var def host.Definition
		change(&o, &def)
		o.Sandboxes = map[string]host.Definition{"x": def}
		k := key(&setup.Setup{Config: inforce.Config{File: &config.File{}}}, o)
		if _, err := k.newHost(t.Context(), o); err == nil || err.Error() != "what a path leads to is the process's own" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
