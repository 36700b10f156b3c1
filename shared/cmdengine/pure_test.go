//go:build linux

package cmdengine

import (
	"context"
	"errors"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit"
	"github.com/sbxhost/sbxhost/shared"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	isolating := shared.Info{Name: "e", Features: isolates}
	bare := shared.Info{Name: "e", Features: shared.Features{shared.FeatureUnconfined}}
	withOptions := isolating
	withOptions.Options.Attributes = []shared.OptionAttribute{{Name: "image", Type: shared.OptionString}}
	for name, test := range map[string]struct {
		info      shared.Info
		spec      shared.Spec
		attribute string // "" accepts
	}{
		"zero":                   {isolating, shared.Spec{}, ""},
		"zero without isolation": {bare, shared.Spec{}, "engine"},
		"unconfined":             {bare, shared.Spec{Unconfined: true}, ""},
		"unconfined isolating":   {isolating, shared.Spec{Unconfined: true}, "engine"},
		"host network":           {isolating, shared.Spec{Network: shared.Network{Mode: shared.NetworkHost}}, "network"},
		"host files":             {isolating, shared.Spec{Filesystem: shared.FilesystemHost}, "filesystem"},
		"user":                   {isolating, shared.Spec{User: &shared.User{}}, "run_as"},
		"remap": {isolating, shared.Spec{Table: []shared.Entry{
			{Source: "/a", Path: "/b", Why: "bind_paths[1]", Access: shared.ReadOnly},
		}}, "bind_paths[1]"},
		"limit":             {isolating, shared.Spec{Limits: shared.Limits{Memory: 1}}, "limits.memory"},
		"best effort limit": {isolating, shared.Spec{Limits: shared.Limits{Memory: 1, BestEffort: true}}, ""},
		"options":           {isolating, shared.Spec{Options: []byte(`{"image": "x"}`)}, "config.image"},
		"no options":        {isolating, shared.Spec{Options: []byte(` {} `)}, ""},
		"known options":     {withOptions, shared.Spec{Options: []byte(`{"image": "x"}`)}, ""},
		"null options":      {withOptions, shared.Spec{Options: []byte(`null`)}, ""},
	} {
		err := admit(&test.info, &test.spec)
		var e *shared.Error
		kind := shared.ErrUnsupported
		if name == "options" {
			kind = shared.ErrInvalidSpec
		}
		switch {
		case test.attribute == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.attribute != "" && (!errors.As(err, &e) || e.Kind != kind || e.Attribute != test.attribute):
			t.Errorf("%s: %v, want it to name %s", name, err, test.attribute)
		}
	}
}

func TestOpenWorksOnACopy(t *testing.T) {
	t.Parallel()
	c := config(direct)
	c.Open = func(_ context.Context, spec *shared.Spec) error {
		spec.Table[0].Why = "changed"
		return nil
	}
	spec := specFor(direct, "/tmp")
	sb := open(t, c, spec)
	if spec.Table[0].Why != "" || sb.spec.Table[0].Why != "changed" {
		t.Errorf("the caller has %+v, the engine %+v", spec.Table[0], sb.spec.Table[0])
	}
}

func TestHiddenIsRefused(t *testing.T) {
	t.Parallel()
	c := config(inside)
	spec := specFor(inside)
	spec.Table = append(spec.Table, shared.Entry{Path: "/x", Missing: shared.MissingIgnore, Why: "deny_paths[0]"})
	_, err := New(c).Open(t.Context(), spec)
	wantError(t, err, shared.ErrUnsupported, "deny_paths[0]: ")
	c.Info.Features = append(slices.Clone(c.Info.Features), shared.FeatureHidden)
	open(t, c, spec)
}

func TestCredentialFor(t *testing.T) {
	t.Parallel()
	root := shared.User{Groups: []uint32{0, 4}}
	dev := shared.User{UID: 7, GID: 8, Groups: []uint32{8, 9}}
	for name, test := range map[string]struct {
		self   shared.User
		user   *shared.User
		groups []uint32
		change bool
		denied bool
	}{
		"nobody asked":           {self: dev},
		"root to dev":            {self: root, user: &shared.User{UID: 7, GID: 8, Groups: []uint32{9}}, change: true, groups: []uint32{9}},
		"root drops groups":      {self: root, user: &shared.User{UID: 7, GID: 8}, change: true},
		"root to itself":         {self: root, user: &shared.User{}, change: true},
		"dev to itself":          {self: dev, user: &shared.User{UID: 7, GID: 8, Groups: []uint32{9}}},
		"dev without its groups": {self: dev, user: &shared.User{UID: 7, GID: 8}, denied: true},
		"dev, another group":     {self: dev, user: &shared.User{UID: 7, GID: 9, Groups: []uint32{8, 9}}, denied: true},
		"dev to root":            {self: dev, user: &shared.User{}, denied: true},
	} {
		c, err := credentialFor(test.user, test.self)
		if errors.Is(err, shared.ErrDenied) != test.denied || (c != nil) != test.change {
			t.Errorf("%s: %v, %v", name, c, err)
			continue
		}
		if c != nil && (c.Uid != test.user.UID || c.Gid != test.user.GID || c.NoSetGroups || !slices.Equal(c.Groups, test.groups)) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	c := config(direct)
	c.Attach = func(context.Context, *shared.Spec) (*Attachment, error) {
		return &Attachment{Events: func() []shared.Event {
			return []shared.Event{{Kind: shared.EventLimit, Message: "m"}}
		}}, nil
	}
	p, err := open(t, c, specFor(direct)).Start(t.Context(), sh("true"), shared.Stdio{})
	if err != nil {
		t.Fatal(err)
	}
	var got []shared.Event
	for event := range p.Events() {
		got = append(got, event)
	}
	if len(got) != 1 || got[0].Kind != shared.EventLimit || got[0].Time.IsZero() {
		t.Errorf("%+v", got)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][]string{
		direct: {"true", "a"},
		inside: {"launcher", "--", "<init>", "sbxhost-init", "<control>"},
	} {
		c := config(mode)
		if mode == inside {
			c.Launch = func(*shared.Spec, *shared.Command) (*exec.Cmd, error) {
				return &exec.Cmd{Path: "/launcher", Args: []string{"launcher", "--"}}, nil
			}
		}
		cmd := shared.Command{Args: []string{"true", "a"}, Dir: "/"}
		plan, err := open(t, c, specFor(mode)).Plan(t.Context(), cmd)
		if err != nil || !reflect.DeepEqual(plan.Argv, want) {
			t.Errorf("%s: %+v, %v", mode, plan, err)
		}
		c.Plan = func(*shared.Spec, *shared.Command) (shared.Plan, error) {
			return shared.Plan{Notes: []string{"n"}}, nil
		}
		plan, err = open(t, c, specFor(mode)).Plan(t.Context(), cmd)
		if err != nil || !reflect.DeepEqual(plan.Argv, want) || len(plan.Notes) != 1 {
			t.Errorf("%s with a plan: %+v, %v", mode, plan, err)
		}
	}
}

func TestExecErrorKinds(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in   sandboxinit.ExecError
		kind error
		text string
	}{
		{sandboxinit.ExecError{Op: sandboxinit.OpLookup, Path: "foo", Errno: 2}, shared.ErrNotFound, `"foo": command not found in the sandbox's PATH`},
		{sandboxinit.ExecError{Op: sandboxinit.OpExec, Path: "/x", Errno: 2}, shared.ErrNotFound, `"/x": no such file or directory`},
		{sandboxinit.ExecError{Op: sandboxinit.OpExec, Path: "/x", Errno: 13}, shared.ErrNotExecutable,
			`"/x": permission denied; is it marked executable, and on a file system that allows it?`},
		{sandboxinit.ExecError{Op: sandboxinit.OpChdir, Path: "/d", Errno: 2}, shared.ErrInvalidSpec, `dir: "/d": no such file or directory`},
		{sandboxinit.ExecError{Op: sandboxinit.OpFork, Errno: 11}, shared.ErrUnavailable, `fork: resource temporarily unavailable`},
	} {
		err := execError(&test.in, whereInside)
		if !errors.Is(err, test.kind) || err.Error() != test.text {
			t.Errorf("%+v: %v %q", test.in, errors.Unwrap(err), err)
		}
	}
}

func TestAdmitOptions(t *testing.T) {
	t.Parallel()
	info := shared.Info{Options: shared.OptionSchema{Attributes: []shared.OptionAttribute{{Name: "image"}, {Name: "build"}}}}
	for options, attribute := range map[string]string{
		``: "", `{}`: "", `null`: "", `{"image": 3, "build": {"target": "x"}}`: "",
		`{"imgae": "x"}`:  "config.imgae",
		`[]`:              "config",
		`{"target": "x"}`: "config.target",
	} {
		err := admitOptions(&info, []byte(options))
		var e *shared.Error
		if attribute == "" && err != nil || attribute != "" && (!errors.As(err, &e) || e.Kind != shared.ErrInvalidSpec || e.Attribute != attribute) {
			t.Errorf("%s: %v, want it to name %q", options, err, attribute)
		}
	}
}

// Without isolation a command must not work on other files than it was given, nor without a bound.
func TestUnheld(t *testing.T) {
	t.Parallel()
	mount := func(m shared.Entry) shared.Spec { return shared.Spec{Unconfined: true, Table: []shared.Entry{m}} }
	for name, test := range map[string]struct {
		claims    shared.Feature
		spec      shared.Spec
		attribute string // "" accepts
	}{
		"nothing":        {"", shared.Spec{Unconfined: true}, ""},
		"remap":          {"", mount(shared.Entry{Source: "/a", Path: "/b", Access: shared.ReadOnly}), "table[0]"},
		"claimed remap":  {shared.FeatureRemap, mount(shared.Entry{Source: "/a", Path: "/b", Access: shared.ReadOnly}), ""},
		"tmpfs":          {shared.FeatureRemap, mount(shared.Entry{Path: "/b", Access: shared.Private, Why: "x"}), "x"},
		"claimed tmpfs":  {shared.FeatureTmpfs, mount(shared.Entry{Path: "/b", Access: shared.Private}), ""},
		"overlay":        {"", mount(shared.Entry{Source: "/a", Path: "/a", Access: shared.Overlay}), "table[0]"},
		"maybe overlay":  {"", mount(shared.Entry{Source: "/a", Path: "/a", Access: shared.Overlay, Degradable: true}), ""},
		"user":           {"", shared.Spec{Unconfined: true, User: &shared.User{}}, "run_as"},
		"claimed user":   {shared.FeatureUser, shared.Spec{Unconfined: true, User: &shared.User{}}, ""},
		"limit":          {"", shared.Spec{Unconfined: true, Limits: shared.Limits{CPUs: 3}}, "limits.cpus"},
		"claimed limit":  {shared.FeatureLimitCPUs, shared.Spec{Unconfined: true, Limits: shared.Limits{CPUs: 3}}, ""},
		"best-effort":    {"", shared.Spec{Unconfined: true, Limits: shared.Limits{CPUs: 3, BestEffort: true}}, ""},
		"the other kind": {shared.FeatureLimitPIDs, shared.Spec{Unconfined: true, Limits: shared.Limits{TempSize: 3}}, "limits.temp_size"},
	} {
		err := admit(&shared.Info{Features: shared.Features{shared.FeatureUnconfined, test.claims}}, &test.spec)
		var e *shared.Error
		if test.attribute == "" && err != nil || test.attribute != "" && (!errors.As(err, &e) || e.Kind != shared.ErrUnsupported || e.Attribute != test.attribute) {
			t.Errorf("%s: %v, want it to name %q", name, err, test.attribute)
		}
	}
}

// A Launch that forgets a case fails that command, and no other.
func TestLaunchThatGivesNothing(t *testing.T) {
	t.Parallel()
	e := New(Config{
		Info:   shared.Info{Name: "x", Version: "1", Doc: "x", Features: shared.Features{shared.FeatureUnconfined}},
		Launch: func(*shared.Spec, *shared.Command) (*exec.Cmd, error) { return nil, nil },
	})
	s, err := e.Open(t.Context(), shared.Spec{Unconfined: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	cmd := shared.Command{Args: []string{"/bin/true"}, Dir: "/"}
	if _, err := s.Start(t.Context(), cmd, shared.Stdio{}); err == nil || !strings.Contains(err.Error(), "Launch returned neither") {
		t.Errorf("Start: %v", err)
	}
	if _, err := s.Plan(t.Context(), cmd); err == nil || !strings.Contains(err.Error(), "Launch returned neither") {
		t.Errorf("Plan: %v", err)
	}
}

// An engine cannot claim that nothing outlives a command and make no pid namespace.
func TestNewRefusesHiddenProcessesWithoutNamespace(t *testing.T) {
	t.Parallel()
	defer func() {
		if said, _ := recover().(string); !strings.Contains(said, "NoPIDNamespace") {
			t.Errorf("New says %q", said)
		}
	}()
	c := config(inside)
	c.NoPIDNamespace = true
	New(c)
}

// Each command has a home of its own, which a session learns, unless the definition has one.
func TestHomeOfCommandIsReported(t *testing.T) {
	t.Parallel()
	home := shared.Entry{Path: "/home/u", Source: "/kept", Access: shared.ReadWrite}
	for _, tt := range []struct {
		spec shared.Spec
		want bool
	}{
		{shared.Spec{Home: "/home/u", Session: shared.Session{ID: "s"}}, true},
		{shared.Spec{Home: "/home/u", Session: shared.Session{ID: "s"}, Table: []shared.Entry{home}}, false},
		{shared.Spec{Home: "/home/u"}, false},
		{shared.Spec{Session: shared.Session{ID: "s"}}, false},
	} {
		a, err := (&Config{HomeOfCommand: true}).attach(t.Context(), &tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		events := a.Events()
		if got := slices.ContainsFunc(events, func(e shared.Event) bool { return strings.Contains(e.Message, "lasts for one command") }); got != tt.want {
			t.Errorf("%+v: %v", tt.spec, events)
		}
	}
}
