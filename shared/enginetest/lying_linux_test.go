package enginetest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/plugins/native"
	"github.com/sbxhost/sbxhost/plugins/noop"
	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest"
)

var update = flag.Bool("update", false, "write the golden files")

// other opens a second sandbox, of another Spec, for the commands that when chooses.
func other(when func(*shared.Spec, *shared.Command) bool, change func(*shared.Spec)) breakage {
	return breakage{open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
		s, err := e.Open(ctx, spec)
		if err != nil {
			return nil, err
		}
		changed := spec
		changed.Table = slices.Clone(spec.Table)
		change(&changed)
		two, err := e.Open(ctx, changed)
		if err != nil {
			return nil, errors.Join(err, s.Close(ctx))
		}
		return &manySandboxes{Sandbox: s, more: []shared.Sandbox{two}, start: func(s *manySandboxes, ctx context.Context, cmd *shared.Command) (shared.Sandbox, error) {
			if when(&spec, cmd) {
				return two, nil
			}
			return s.Sandbox, nil
		}}, nil
	}}
}

// later opens a second sandbox, of another Spec, for all commands but a sandbox's first.
func later(change func(*shared.Spec)) breakage {
	var mu sync.Mutex
	seen := map[*shared.Spec]bool{}
	return other(func(s *shared.Spec, _ *shared.Command) bool {
		mu.Lock()
		defer mu.Unlock()
		defer func() { seen[s] = true }()
		return seen[s]
	}, change)
}

// late opens a sandbox when a command starts, with what is found then.
func late(change func(*shared.Spec)) breakage {
	return breakage{open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
		s, err := e.Open(ctx, spec)
		return &manySandboxes{Sandbox: s, start: func(s *manySandboxes, ctx context.Context, _ *shared.Command) (shared.Sandbox, error) {
			now := spec
			now.Table = slices.Clone(spec.Table)
			change(&now)
			sandbox, err := e.Open(ctx, now)
			if err == nil {
				s.more = append(s.more, sandbox)
			}
			return sandbox, err
		}}, err
	}}
}

// manySandboxes are those that the commands of one run in.
type manySandboxes struct {
	shared.Sandbox
	more  []shared.Sandbox
	start func(s *manySandboxes, ctx context.Context, cmd *shared.Command) (shared.Sandbox, error)
}

func (s *manySandboxes) Start(ctx context.Context, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
	sandbox, err := s.start(s, ctx, &cmd)
	if err != nil {
		return nil, err
	}
	return sandbox.Start(ctx, cmd, stdio)
}

func (s *manySandboxes) Close(ctx context.Context) error {
	err := s.Sandbox.Close(ctx)
	for _, one := range s.more {
		err = errors.Join(err, one.Close(ctx))
	}
	return err
}

// closingAll closes all sandboxes with the first.
func closingAll() breakage {
	var mu sync.Mutex
	var all []shared.Sandbox
	return breakage{open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
		mu.Lock()
		defer mu.Unlock()
		s, err := e.Open(ctx, spec)
		if err == nil {
			all = append(all, s)
		}
		return s, err
	}, close: func(ctx context.Context, _ shared.Sandbox) (err error) {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range all {
			err = errors.Join(err, s.Close(ctx))
		}
		return err
	}}
}

// roughly has bubblewrap make the sandbox, with words that nobody thought about for long.
func roughly(change func(words []string) []string) breakage {
	return breakage{open: func(ctx context.Context, _ shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
		spec.Limits, spec.Devices = shared.Limits{}, nil
		return naiveWith(change).Open(ctx, spec)
	}}
}

func adding(more ...string) func([]string) []string {
	return func(words []string) []string { return append(words, more...) }
}

// replaced has other words in the place of one.
func replaced(words []string, word string, by ...string) []string {
	i := slices.Index(words, word)
	return slices.Concat(words[:i], by, words[i+1:])
}

// outside runs commands in no sandbox.
func outside() breakage {
	return breakage{open: func(ctx context.Context, _ shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
		return noop.New().Open(ctx, shared.Spec{Unconfined: true})
	}}
}

// entries changes each entry of the table, or leaves it out.
func entries(change func(e *shared.Entry) bool) breakage {
	return opened(func(s *shared.Spec) {
		var table []shared.Entry
		for _, e := range s.Table {
			if change(&e) {
				table = append(table, e)
			}
		}
		s.Table = table
	})
}

// changedTable changes each entry, by those above it.
func changedTable(change func(e *shared.Entry, above []shared.Entry)) breakage {
	return opened(func(s *shared.Spec) {
		table := slices.Clone(s.Table)
		for i := range table {
			var above []shared.Entry
			for _, o := range s.Table {
				if o.Path != table[i].Path && paths.Inside(o.Path, table[i].Path) {
					above = append(above, o)
				}
			}
			change(&table[i], above)
		}
		s.Table = table
	})
}

// hiddenAs has something in the place of what is hidden.
func hiddenAs(change func(e *shared.Entry)) breakage {
	return changedTable(func(e *shared.Entry, _ []shared.Entry) {
		if e.Access == shared.Hidden {
			change(e)
		}
	})
}

// as gives the entries of one access another one.
func as(from, to shared.Access) breakage {
	return entries(func(e *shared.Entry) bool {
		if e.Access == from && !(from == shared.ReadOnly && !strings.Contains(e.Path, "/ws/") && !strings.HasSuffix(e.Path, "/shown")) {
			e.Access = to
			switch {
			case !to.Shows():
				e.Source = ""
			case e.Source == "":
				e.Source, e.Missing = e.Path, shared.MissingIgnore
			}
		}
		return true
	})
}

// with has one entry more, or another at its path.
func with(table []shared.Entry, e shared.Entry) []shared.Entry {
	e.Why = "a lie"
	table = append(slices.DeleteFunc(slices.Clone(table), func(o shared.Entry) bool { return o.Path == e.Path }), e)
	slices.SortFunc(table, func(a, b shared.Entry) int { return paths.Compare(a.Path, b.Path) })
	return table
}

// shows binds a directory of the host, writable.
func shows(source, path string) breakage {
	return opened(func(s *shared.Spec) {
		s.Table = with(s.Table, shared.Entry{Source: source, Path: path, Access: shared.ReadWrite})
	})
}

// beside shows something, or itself, beside the workspace.
func beside(name, source string) breakage {
	return opened(func(s *shared.Spec) {
		for _, e := range s.Table {
			if filepath.Base(e.Path) == "ws" {
				path, from := filepath.Join(filepath.Dir(e.Path), name), source
				if from == "" {
					from = path
				}
				s.Table = with(s.Table, shared.Entry{Source: from, Path: path, Access: shared.ReadOnly})
			}
		}
	})
}

// unmasked shows what is hidden, of the paths that match.
func unmasked(pattern string) func(*shared.Spec) {
	r := regexp.MustCompile(pattern)
	return func(s *shared.Spec) {
		s.Table = slices.DeleteFunc(slices.Clone(s.Table), func(e shared.Entry) bool { return e.Access == shared.Hidden && r.MatchString(e.Path) })
	}
}

// inHostView shows a directory of the host in the host's view, writable.
func inHostView(path string) breakage {
	return opened(func(s *shared.Spec) {
		if s.Filesystem == shared.FilesystemHost {
			s.Table = with(s.Table, shared.Entry{Source: path, Path: path, Access: shared.ReadWrite})
		}
	})
}

// missing takes one answer to what is missing for another.
func missing(is, instead shared.Missing) breakage {
	return entries(func(e *shared.Entry) bool {
		if e.Missing == is {
			e.Missing = instead
		}
		return true
	})
}

// names changes each rule of names.
func names(change func(rule string) string) breakage {
	return opened(func(s *shared.Spec) {
		s.Network.Names = slices.Clone(s.Network.Names)
		for i, rule := range s.Network.Names {
			s.Network.Names[i] = change(rule)
		}
	})
}

func machineName() string {
	name, _ := os.Hostname()
	return strings.ToLower(name)
}

// published changes each published port, which has an address and two ports then.
func published(change func(address, port, inside string) string) breakage {
	return opened(func(s *shared.Spec) {
		s.Network.Publish = slices.Clone(s.Network.Publish)
		for i, p := range s.Network.Publish {
			parts := strings.Split(p, ":")
			port, inside := parts[max(0, len(parts)-2)], parts[len(parts)-1]
			s.Network.Publish[i] = change("127.0.0.1", port, inside)
		}
	})
}

// byProxy has the variables name a proxy, which leads to what is listed, and everywhere if it is asked in one
// way, by a method of HTTP. Variables of some names are left out.
func byProxy(t *testing.T, careless string, without ...string) breakage {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var listed sync.Map
	leads := func(way, to string) bool {
		_, ok := listed.Load(to + " private")
		return ok || way == careless
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go lead(c, leads)
		}
	}()
	at := l.Addr().(*net.TCPAddr)
	b := alongside(fmt.Sprintf(`export HTTP_PROXY=http://%[1]v HTTPS_PROXY=http://%[1]v ALL_PROXY=http://%[1]v; unset NONE %[2]s; exec "$@"`, at, strings.Join(without, " ")))
	b.open = opened(func(s *shared.Spec) {
		if s.Network.Mode == shared.NetworkNames {
			for _, rule := range s.Network.Names {
				listed.Store(rule, true)
			}
			s.Network.HostPorts = append(slices.Clone(s.Network.HostPorts), uint16(at.Port))
		}
	}).open
	return claim(b, shared.FeatureNetworkProxy, shared.FeatureNetworkNames)
}

// lead serves one connection to such a proxy.
func lead(c net.Conn, leads func(way, to string) bool) {
	defer c.Close()
	in := bufio.NewReader(c)
	request, err := http.ReadRequest(in)
	if err != nil || !leads(request.Method, request.Host) {
		return
	}
	out, err := net.Dial("tcp", request.Host)
	if err != nil {
		return
	}
	defer out.Close()
	if request.Method == http.MethodConnect {
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
	} else {
		request.Write(out)
	}
	go io.Copy(out, in)
	io.Copy(c, out)
}

// needNative skips a test where the engine native cannot work, unless it must.
func needNative(t *testing.T) {
	t.Helper()
	p, err := native.New().Probe(t.Context())
	switch {
	case err == nil && p.Ready:
	case slices.Contains(strings.Split(os.Getenv("SBXHOST_REQUIRE"), ","), "namespaces"):
		t.Fatalf("native is not ready: %v %s", err, p.Reason)
	default:
		t.Skipf("native is not ready: %v %s", err, p.Reason)
	}
}

// A proxy that leads to what is listed holds what a list of names asks of it.
func TestProxiesAreTried(t *testing.T) {
	t.Parallel()
	needNative(t)
	r := suite(t, &brokenEngine{native.New(), byProxy(t, "")}, enginetest.Options{Run: every("net.40", "net.41")}).Run(t.Context(), nil)
	for _, one := range r.Results {
		if one.Status != enginetest.Held {
			t.Errorf("%+v", one)
		}
	}
	if len(r.Results) != 2 {
		t.Errorf("%+v", r.Results)
	}
}

func onNetwork(mode, instead shared.NetworkMode) breakage {
	return opened(func(s *shared.Spec) {
		if s.Network.Mode == mode {
			s.Network = shared.Network{Mode: instead}
		}
	})
}

// sending changes what events tell, or leaves them out.
func sending(change func(e *shared.Event) bool) breakage {
	return breakage{events: func(p shared.Process) <-chan shared.Event {
		events := make(chan shared.Event)
		go func() {
			defer close(events)
			for e := range p.Events() {
				if change(&e) {
					events <- e
				}
			}
		}()
		return events
	}}
}

func detail(key, value string) breakage {
	return sending(func(e *shared.Event) bool {
		if _, ok := e.Details[key]; ok {
			e.Details[key] = value
		}
		return true
	})
}

func silent(kind shared.EventKind) breakage {
	return sending(func(e *shared.Event) bool { return e.Kind != kind })
}

// traced changes the calls that a trace tells.
func traced(change func([]shared.TracedCall) []shared.TracedCall) breakage {
	return sending(func(e *shared.Event) bool {
		var calls []shared.TracedCall
		if e.Kind == shared.EventTraced && json.Unmarshal([]byte(e.Details["calls"]), &calls) == nil {
			text, _ := json.Marshal(change(calls))
			e.Details["calls"] = string(text)
		}
		return true
	})
}

// gently asks a command whose time is up, and nobody else, to end.
func gently() breakage {
	var mu sync.Mutex
	timedOut := map[shared.Process]bool{}
	return breakage{start: func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
		timeout := cmd.Timeout
		cmd.Timeout = 0
		p, err := s.Start(ctx, cmd, stdio)
		if err == nil && timeout > 0 {
			time.AfterFunc(timeout, func() {
				mu.Lock()
				defer mu.Unlock()
				timedOut[p] = p.Signal(context.WithoutCancel(ctx), syscall.SIGTERM) == nil
			})
		}
		return p, err
	}, wait: func(ctx context.Context, p shared.Process) (shared.Result, error) {
		r, err := p.Wait(ctx)
		mu.Lock()
		defer mu.Unlock()
		r.TimedOut = timedOut[p]
		return r, err
	}}
}

// claim has it claim a feature, too, and not others.
func claim(b breakage, f shared.Feature, not ...shared.Feature) breakage {
	b.info = func(i shared.Info) shared.Info {
		i.Features = append(slices.DeleteFunc(slices.Clone(i.Features), shared.Features(not).Has), f)
		return i
	}
	return b
}

// hostViewAlone has it claim the host's view and not the minimal one.
func hostViewAlone(b breakage) breakage {
	return claim(b, shared.FeatureFilesystemHost, shared.FeatureFilesystemHost, shared.FeatureFilesystemMinimal)
}

// alongside has a shell run the command's words.
func alongside(text string) breakage {
	return changed(func(c *shared.Command, _ *shared.Stdio) {
		if c.Script == "" {
			c.Args = append([]string{"/bin/sh", "-c", text, "sh"}, c.Args...)
		}
	})
}

// withSecret has the plan tell the secret of a credential.
func withSecret(tell func(secret string, plan *shared.Plan)) breakage {
	var secret string
	b := misplanned(func(p *shared.Plan) { tell(secret, p) })
	b.open = opened(func(s *shared.Spec) {
		for _, c := range s.Network.Inject.Credentials {
			secret = string(c.Value)
		}
	}).open
	return b
}

// inSession does something to what matches a pattern in the session's directory, when a command has
// started or when a sandbox was closed.
func inSession(pattern string, do func(path string), atStart bool) breakage {
	var dir string
	each := func() {
		found, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, path := range found {
			do(path)
		}
	}
	b := opened(func(s *shared.Spec) { dir = s.Session.Dir })
	if atStart {
		b.start = func(ctx context.Context, s shared.Sandbox, cmd shared.Command, stdio shared.Stdio) (shared.Process, error) {
			defer each()
			return s.Start(ctx, cmd, stdio)
		}
		return b
	}
	b.close = func(ctx context.Context, s shared.Sandbox) error {
		defer each()
		return s.Close(ctx)
	}
	return b
}

// sentences are what docs/protocol.md says of each feature, in its order, and what it says of the Spec.
func sentences(t *testing.T) (features []shared.Feature, of map[shared.Feature][]string, prose string) {
	t.Helper()
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	of = map[shared.Feature][]string{}
	_, table, _ := strings.Cut(string(page), "| feature | the engine |\n|---|---|\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ")
		if len(cells) != 2 {
			break
		}
		for name := range strings.SplitSeq(strings.TrimPrefix(cells[0], "| "), ", ") {
			f := shared.Feature(strings.Trim(name, "`"))
			features = append(features, f)
			of[f] = regexp.MustCompile(`[.;] `).Split(cells[1], -1)
		}
	}
	_, prose, _ = strings.Cut(string(page), "### The Spec\n\n")
	prose, _, _ = strings.Cut(prose, "\n## ")
	return features, of, strings.Join(strings.Fields(prose), " ")
}

// Each sentence of the protocol about a feature is one that an engine could lie about, and the kit
// would see that. The golden file lists them.
func TestEachSentenceHasALie(t *testing.T) {
	t.Parallel()
	features, of, prose := sentences(t)
	list := lies(t)
	var table strings.Builder
	table.WriteString("# Lies that the kit finds\n\nUnder each sentence of docs/protocol.md are engines that do not do what it says.\n")
	told := map[string]bool{}
	rows := 0
	under := func(sentence string) {
		rows = 0
		fmt.Fprintf(&table, "\n%s:\n\n| an engine that | is caught by |\n|---|---|\n", sentence)
	}
	row := func(what, by string) {
		rows++
		fmt.Fprintf(&table, "| %s | %s |\n", what, by)
	}
	for _, f := range features {
		fmt.Fprintf(&table, "\n## `%s`\n", f)
		for _, sentence := range of[f] {
			under(sentence)
			for _, l := range list {
				if l.feature == f && strings.Contains(sentence, l.sentence) {
					told[string(f)+l.what] = true
					row(l.what, l.cases)
				}
			}
			for words, why := range unseen {
				if strings.Contains(sentence, words) {
					row("-", why)
				}
			}
			if rows == 0 {
				t.Errorf("%s: no lie is about %q", f, sentence)
			}
		}
	}
	table.WriteString("\n## The Spec\n")
	for sentence := range strings.SplitSeq(prose, ". ") {
		rows = 0
		for _, l := range list {
			if l.feature == ofSpec && strings.Contains(sentence, l.sentence) {
				if told[string(ofSpec)+l.what] = true; rows == 0 {
					under(sentence)
				}
				row(l.what, l.cases)
			}
		}
	}
	if len(told) != len(list) {
		t.Errorf("of %d lies %d are about a sentence of their feature", len(list), len(told))
	}
	const file = "testdata/lies.md"
	if *update {
		if err := os.WriteFile(file, []byte(table.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != table.String() {
		t.Errorf("%s is another list (%v): go test ./shared/enginetest -run TestEachSentenceHasALie -update", file, err)
	}
}

// An engine that does not do what one sentence says is caught, and a good one is not. A short
// run tries the first lie about each feature.
func TestLiesAreCaught(t *testing.T) {
	t.Parallel()
	needNative(t)
	list, tried := lies(t), map[shared.Feature]bool{}
	if testing.Short() {
		list = slices.DeleteFunc(list, func(l lie) bool {
			defer func() { tried[l.feature] = true }()
			return tried[l.feature]
		})
	}
	var ids []string
	for _, l := range list {
		ids = append(ids, strings.Fields(l.cases)...)
	}
	honest := map[string]enginetest.Result{}
	for _, r := range suite(t, native.New(), enginetest.Options{Run: every(ids...)}).Run(t.Context(), nil).Results {
		honest[r.ID] = r
		if r.Status.Bad() {
			t.Errorf("the good engine: %+v", r)
		}
	}
	for _, l := range list {
		t.Run(string(l.feature)+"/"+l.what, func(t *testing.T) {
			t.Parallel()
			cases := slices.DeleteFunc(strings.Fields(l.cases), func(id string) bool { // on this machine, or for this user
				return honest[id].Status == enginetest.NotApplicable
			})
			if len(cases) == 0 {
				t.Skipf("%s: %s", l.cases, honest[strings.Fields(l.cases)[0]].Detail)
			}
			try := func() enginetest.Results {
				return suite(t, &brokenEngine{native.New(), l.breakage}, enginetest.Options{Run: every(cases...), CaseTimeout: 12 * time.Second}).Run(t.Context(), nil)
			}
			r := try()
			for range 5 { // where other programs have the processors, nobody gets more of them than a limit
				if l.feature == shared.FeatureLimitCPUs && len(r.Bad()) == 0 {
					r = try()
				}
			}
			if len(r.Bad()) == 0 {
				t.Errorf("the kit did not notice: %+v", r)
			}
			for _, bad := range r.Bad() {
				t.Logf("%s %s: %s", bad.Status, bad.ID, bad.Detail)
				if strings.HasPrefix(bad.Detail, "starting: a lie") || strings.HasPrefix(bad.Detail, "starting: bind_paths") {
					t.Errorf("this engine cannot tell that lie")
				}
			}
		})
	}
}

// An engine that claims a part is tried for that, and told what else holds of what it does
// not claim.
func TestPartsAreTried(t *testing.T) {
	t.Parallel()
	needNative(t)
	some := shared.Features{shared.FeatureTempPrivate, shared.FeatureProcessesHidden}
	e := &brokenEngine{native.New(), breakage{
		info: func(i shared.Info) shared.Info {
			i.Features = slices.DeleteFunc(slices.Clone(i.Features), some.Has)
			return i
		},
		open: func(ctx context.Context, e shared.Engine, spec shared.Spec) (shared.Sandbox, error) {
			spec.BestEffort = false // native holds all
			return e.Open(ctx, spec)
		},
	}}
	r := suite(t, e, enginetest.Options{Run: every("read.13", "read.25", "proc.08", "write.41", "kernel.05", "net.01")}).Run(t.Context(), nil)
	may, drop := r.Claims()
	if len(r.Results) != 6 || !slices.Equal(may, []shared.Feature{shared.FeatureTempPrivate, shared.FeatureProcessesHidden}) || len(drop) > 0 {
		t.Errorf("may claim %q, must drop %q: %+v", may, drop, r)
	}
	for _, one := range r.Results {
		if claimed := !some.Has(one.Feature); one.Feature == "" || claimed && one.Status != enginetest.Held || !claimed && (one.Status != enginetest.Skipped || one.Found != enginetest.Held) {
			t.Errorf("%+v", one)
		}
	}
}

// With the host's view alone, an engine is tried in that, and not told to claim what could not be tried.
func TestHostViewAlone(t *testing.T) {
	t.Parallel()
	needNative(t)
	o := enginetest.Options{ProbesOnly: true}
	if testing.Short() {
		o.Run = regexp.MustCompile(`^(read\.[03]|write\.[08])`)
	}
	r := suite(t, &brokenEngine{native.New(), hostViewAlone(breakage{})}, o).Run(t.Context(), nil)
	const why = "the engine does not claim filesystem.minimal"
	skipped := 0
	for _, one := range r.Results {
		if one.Status.Bad() {
			t.Errorf("%+v", one)
		}
		if one.Status == enginetest.Skipped && one.Detail == why {
			skipped++
		}
	}
	var told strings.Builder
	if err := r.WriteTable(&told, true); err != nil || skipped == 0 || skipped > 30 || !strings.Contains(told.String(), fmt.Sprintf("\n%d skipped: %s\n", skipped, why)) {
		t.Errorf("%d are skipped: %v\n%s", skipped, err, told.String())
	}
	b := claim(breakage{}, shared.FeatureFilesystemHost, shared.FeatureFilesystemHost, shared.FeatureFilesystemMinimal, shared.FeatureMetadata)
	r = suite(t, &brokenEngine{native.New(), b}, enginetest.Options{Run: every("write.09", "read.37")}).Run(t.Context(), nil)
	if may, drop := r.Claims(); len(may) > 0 || len(drop) > 0 || len(r.Results) != 2 {
		t.Errorf("may claim %q, must drop %q: %+v", may, drop, r)
	}
}

// A finding says what was asked for, what was demanded, and what was found.
func TestFindingIsPlain(t *testing.T) {
	t.Parallel()
	needNative(t)
	r := suite(t, &brokenEngine{native.New(), missing(shared.MissingRefuse, shared.MissingIgnore)}, enginetest.Options{Run: only("host.13")}).Run(t.Context(), nil)
	var told strings.Builder
	const want = `a missing path must be refused with its attribute: In the Spec: a missing path, read-only, for which "missing" is refuse. Found: the command ran.`
	if r.WriteTable(&told, true); !strings.Contains(told.String(), want) {
		t.Errorf("got %s, want %s", told.String(), want)
	}
}

// What the second command tries is of the same features.
func TestSecondCommandIsOfTheSameFeatures(t *testing.T) {
	t.Parallel()
	needNative(t)
	b := claim(onNetwork(shared.NetworkNone, shared.NetworkHost), shared.FeatureNetworkHost, shared.FeatureNetworkHost, shared.FeatureNetworkNone, shared.FeatureNetworkTCP)
	r := suite(t, &brokenEngine{native.New(), b}, enginetest.Options{Run: every("net.01", "net.35", "write.27")}).Run(t.Context(), nil)
	for _, one := range r.Results {
		if one.ID == "write.27" {
			if one.Feature != shared.FeatureFilesystemMinimal {
				t.Errorf("it is not about the network: %+v", one)
			}
			continue
		}
		if one.Status != enginetest.Skipped || one.Found != enginetest.Leaked {
			t.Errorf("%+v", one)
		}
	}
	if _, drop := r.Claims(); len(drop) > 0 || len(r.Results) != 3 {
		t.Errorf("must drop %q: %+v", drop, r)
	}
}

// Without a pid namespace the init ends what a command leaves behind, when its engine is
// killed, too.
func TestWithoutPIDNamespace(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := enginetest.Options{Launch: startBroken(self, "no pid namespace"),
		Run: every("life.01", "life.02", "life.03", "life.04", "life.05", "life.06", "life.07", "process.01", "process.02", "process.03")}
	l, err := o.Launch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Kill)
	r := suite(t, l, o).Run(t.Context(), nil)
	for _, one := range r.Results {
		if one.Status != enginetest.Held && one.Found != enginetest.Held {
			t.Errorf("%+v", one)
		}
	}
	if len(r.Results) != 10 {
		t.Errorf("%d results", len(r.Results))
	}
}
