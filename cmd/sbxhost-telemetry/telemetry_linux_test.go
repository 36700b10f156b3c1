package main_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/sbxhost/sbxhost/internal/testing/programs"
)

// A receiver takes OTLP, over http and over gRPC.
type receiver struct {
	http, grpc string // endpoints
	handler    http.Handler

	mu      sync.Mutex
	spans   []*tracepb.Span
	service []string
	metrics []string
	all     bytes.Buffer
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body := io.Reader(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			unzipped, err := gzip.NewReader(body)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			body = unzipped
		}
		data, err := io.ReadAll(body)
		var reply proto.Message
		switch {
		case err != nil:
		case req.URL.Path == "/v1/traces":
			var m collectortrace.ExportTraceServiceRequest
			if err = proto.Unmarshal(data, &m); err == nil {
				r.takeTraces(&m)
			}
			reply = &collectortrace.ExportTraceServiceResponse{}
		case req.URL.Path == "/v1/metrics":
			var m collectormetrics.ExportMetricsServiceRequest
			if err = proto.Unmarshal(data, &m); err == nil {
				r.takeMetrics(&m)
			}
			reply = &collectormetrics.ExportMetricsServiceResponse{}
		default:
			err = fmt.Errorf("no such path: %s", req.URL.Path)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		out, _ := proto.Marshal(reply)
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.Write(out)
	})
	server := httptest.NewServer(r.handler)
	t.Cleanup(server.Close)
	r.http = server.URL

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(g, traceService{receiver: r})
	collectormetrics.RegisterMetricsServiceServer(g, metricsService{receiver: r})
	go g.Serve(listener)
	t.Cleanup(g.Stop)
	r.grpc = "http://" + listener.Addr().String()
	return r
}

func (r *receiver) takeTraces(m *collectortrace.ExportTraceServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.WriteString(m.String())
	for _, resource := range m.ResourceSpans {
		r.service = append(r.service, attribute(resource.Resource.Attributes, "service.name"))
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

func (r *receiver) takeMetrics(m *collectormetrics.ExportMetricsServiceRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.WriteString(m.String())
	for _, resource := range m.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, metric := range scope.Metrics {
				r.metrics = append(r.metrics, metric.Name)
			}
		}
	}
}

// take gives the spans and the names of the metrics that have come, and forgets
// them.
func (r *receiver) take() (spans []*tracepb.Span, metrics, service []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spans, metrics, service = r.spans, r.metrics, r.service
	r.spans, r.metrics, r.service = nil, nil, nil
	return spans, metrics, service
}

type traceService struct {
	collectortrace.UnimplementedTraceServiceServer
	*receiver
}

func (s traceService) Export(_ context.Context, m *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	s.takeTraces(m)
	return &collectortrace.ExportTraceServiceResponse{}, nil
}

type metricsService struct {
	collectormetrics.UnimplementedMetricsServiceServer
	*receiver
}

func (s metricsService) Export(_ context.Context, m *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	s.takeMetrics(m)
	return &collectormetrics.ExportMetricsServiceResponse{}, nil
}

// attribute is the value of an attribute as text.
func attribute(attrs []*common.KeyValue, name string) string {
	for _, a := range attrs {
		if a.Key != name {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			return v.StringValue
		case *common.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		}
	}
	return ""
}

// place is where sbxhost is used: a home and a project that is the workspace.
type place struct {
	bin, home, project string
}

// secret is a variable's value that nothing may send.
const secret = "ghp_canary0123456789TOKENabcdef"

// newPlace builds sbxhost, with its exporter beside it.
func newPlace(t *testing.T) *place {
	t.Helper()
	dir := t.TempDir()
	p := &place{bin: filepath.Join(dir, "bin"), home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project")}
	if err := programs.Copy(p.bin, "cmd/sbxhost", "cmd/sbxhost-telemetry"); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{p.home, p.project} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(p.home, "sandbox.hcl"), []byte("sandbox \"fast\" {\n  engine = \"native\"\n}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) env() []string {
	return []string{
		"PATH=" + p.bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + p.home, "TMPDIR=/tmp", "LANG=C.UTF-8",
		"SBXHOST_CONFIG=" + filepath.Join(p.home, "sandbox.hcl"),
	}
}

// running lists the processes of the programs in bin.
func (p *place) running() (found []string) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && strings.HasPrefix(exe, p.bin+"/") {
			found = append(found, filepath.Dir(link))
		}
	}
	return found
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestTelemetry(t *testing.T) {
	p := newPlace(t)
	r := newReceiver(t)
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"

	run := func(program string, extra []string, args ...string) (stdout, stderr string, status int) {
		t.Helper()
		cmd := exec.Command(program, append([]string{"exec"}, args...)...)
		cmd.Dir = p.project
		cmd.Env = append(p.env(), "GITHUB_TOKEN="+secret)
		cmd.Env = append(cmd.Env, extra...)
		var out, diag bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &diag
		_ = cmd.Run()
		return out.String(), diag.String(), cmd.ProcessState.ExitCode()
	}
	sbxhost := filepath.Join(p.bin, "sbxhost")
	// More than a person would wait, on a machine that is busy.
	const patient = "OTEL_EXPORTER_OTLP_TIMEOUT=60000"
	over := map[string][]string{
		"http": {"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.http, patient, "OTEL_SERVICE_NAME=builder"},
		"grpc": {"OTEL_EXPORTER_OTLP_ENDPOINT=" + r.grpc, patient, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_SERVICE_NAME=builder"},
	}
	for name, env := range over {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, status := run(sbxhost, append(slices.Clip(env), "TRACEPARENT=00-"+trace+"-"+parent+"-01", "TRACESTATE=vendor=1"),
				"-sandbox", "fast", "--", "sh", "-c", `echo "$TRACEPARENT $TRACESTATE"; env | grep -c OTEL; exit 7`)
			spans, metrics, service := r.take()
			if status != 7 || stderr != "" || len(spans) != 1 || len(service) != 1 {
				t.Fatalf("status %d, %d spans, services %q\n%s%s", status, len(spans), service, stdout, stderr)
			}
			s := spans[0]
			if s.Name != "sbxhost.sandbox.native.exec" || hex.EncodeToString(s.TraceId) != trace || hex.EncodeToString(s.ParentSpanId) != parent || s.TraceState != "vendor=1" {
				t.Errorf("the span is %v", s)
			}
			if want := fmt.Sprintf("00-%s-%x-01 vendor=1\n0\n", trace, s.SpanId); stdout != want {
				t.Errorf("the command sees %q, want %q", stdout, want)
			}
			for name, want := range map[string]string{
				"sbxhost.sandbox": "fast", "sbxhost.engine": "native", "sbxhost.decision": "sandboxed", "sbxhost.outcome": "exited", "process.exit.code": "7", "sbxhost.degraded": "0",
			} {
				if got := attribute(s.Attributes, name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if ms, err := strconv.Atoi(attribute(s.Attributes, "sbxhost.duration_ms")); err != nil || uint64(ms) > (s.EndTimeUnixNano-s.StartTimeUnixNano)/1e6 {
				t.Errorf("the duration is %d ms, error %v", ms, err)
			}
			if attribute(s.Attributes, "sbxhost.rule") == "" || s.EndTimeUnixNano <= s.StartTimeUnixNano || s.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR {
				t.Errorf("the span is %v", s)
			}
			if got := strings.Join(metrics, " "); got != "sbxhost.sandbox.execs sbxhost.sandbox.exec.duration" || service[0] != "builder" {
				t.Errorf("metrics %q of service %q", got, service[0])
			}
		})
	}
	httpEnv := slices.Clip(over["http"][:2])
	t.Run("other ends", func(t *testing.T) {
		for _, c := range []struct {
			args              []string
			status            int
			outcome, key, val string
		}{
			{[]string{"-sandbox", "fast", "--", "true"}, 0, "exited", "process.exit.code", "0"},
			{[]string{"-sandbox", "fast", "--", "sh", "-c", "kill -KILL $$"}, 137, "signaled", "sbxhost.signal", "SIGKILL"},
			{[]string{"-sandbox", "fast", "-timeout", "5s", "--", "sh", "-c", "read x </dev/zero"}, 124, "timed_out", "sbxhost.signal", "SIGTERM"},
			{[]string{"-sandbox", "fast", "--", "/no/such"}, 127, "failed", "sbxhost.engine", "native"},
			{[]string{"-sandbox", "fast", "-no-sandbox", "--", "true"}, 125, "failed", "sbxhost.decision", "denied"},
			{[]string{"-sandbox", "fast", "-no-sandbox", "--", "true"}, 125, "failed", "sbxhost.rule", "bypass-not-allowed"},
			{[]string{"-sandbox", "fast", "-C", "/", "--", "true"}, 125, "failed", "sbxhost.engine", "native"},
		} {
			_, _, status := run(sbxhost, httpEnv, c.args...)
			spans, _, service := r.take()
			if status != c.status || len(spans) != 1 || attribute(spans[0].Attributes, "sbxhost.outcome") != c.outcome || attribute(spans[0].Attributes, c.key) != c.val {
				t.Errorf("%v: status %d, spans %v", c.args, status, spans)
				continue
			}
			if len(spans[0].ParentSpanId) != 0 || service[0] != "sbxhost" {
				t.Errorf("%v: the span %v of service %q has a parent, or another name", c.args, spans[0], service[0])
			}
		}
	})
	t.Run("a signal alone", func(t *testing.T) {
		for signal, path := range map[string]string{"TRACES": "/v1/traces", "METRICS": "/v1/metrics"} {
			_, stderr, _ := run(sbxhost, []string{patient, "OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT=" + r.http + path}, "-sandbox", "fast", "--", "true")
			spans, metrics, _ := r.take()
			if stderr != "" || (len(spans) == 1) != (signal == "TRACES") || (len(metrics) == 2) != (signal == "METRICS") {
				t.Errorf("%s: %d spans, metrics %q\n%s", signal, len(spans), metrics, stderr)
			}
		}
	})
	t.Run("over TLS, with a header", func(t *testing.T) {
		server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("Api-Key") != secret {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			r.handler.ServeHTTP(w, req)
		}))
		defer server.Close()
		certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		if err := os.WriteFile(filepath.Join(p.project, "collector.pem"), certificate, 0o644); err != nil {
			t.Fatal(err)
		}
		// The path is relative to where sbxhost runs.
		tls := []string{patient, "OTEL_EXPORTER_OTLP_ENDPOINT=" + server.URL, "OTEL_EXPORTER_OTLP_CERTIFICATE=collector.pem"}
		_, stderr, status := run(sbxhost, append(slices.Clip(tls), "OTEL_EXPORTER_OTLP_HEADERS=api-key="+secret), "-sandbox", "fast", "--", "true")
		if spans, metrics, _ := r.take(); status != 0 || stderr != "" || len(spans) != 1 || len(metrics) != 2 {
			t.Errorf("status %d, %d spans, metrics %q\n%s", status, len(spans), metrics, stderr)
		}
		_, stderr, status = run(sbxhost, append(slices.Clip(tls), "OTEL_EXPORTER_OTLP_HEADERS=api-key=other"+secret), "-sandbox", "fast", "--", "true")
		if spans, _, _ := r.take(); status != 0 || len(spans) != 0 || !strings.Contains(stderr, "403") || strings.Contains(stderr, secret) {
			t.Errorf("status %d, %d spans\n%s", status, len(spans), stderr)
		}
	})
	t.Run("what is approved does not depend on the trace", func(t *testing.T) {
		config := filepath.Join(p.home, "bypass.hcl")
		if err := os.WriteFile(config, []byte("approvals {\n  allow_bypass = true\n}\nsandbox \"fast\" {\n  engine = \"native\"\n}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(sbxhost, "approvals", "add", "-scope", "always", "-config", config, "-no-sandbox", "--", "echo", "free")
		cmd.Dir, cmd.Env = p.project, append(p.env(), httpEnv...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		stdout, stderr, status := run(sbxhost, httpEnv, "-config", config, "-no-sandbox", "--", "echo", "free")
		if spans, _, _ := r.take(); status != 0 || stdout != "free\n" || len(spans) != 1 || attribute(spans[0].Attributes, "sbxhost.decision") != "unsandboxed" {
			t.Errorf("status %d, spans %v\n%s%s", status, spans, stdout, stderr)
		}
	})
	t.Run("a receiver that hangs", func(t *testing.T) {
		// It takes connections, by the kernel, and says nothing.
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		hangs := "OTEL_EXPORTER_OTLP_ENDPOINT=http://" + listener.Addr().String()
		for _, env := range [][]string{{hangs}, {hangs, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}, {"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"}} {
			// It ends at all, and says that this was after the two seconds that it waits unasked.
			_, stderr, status := run(sbxhost, env, "-sandbox", "fast", "--", "sh", "-c", "exit 7")
			if hung := env[0] == hangs; status != 7 || !strings.Contains(stderr, "telemetry: ") || hung && !strings.Contains(stderr, " sent in 2s") {
				t.Errorf("%q: status %d\n%s", env, status, stderr)
			}
		}
		// The result is there while sbxhost waits for as long as it was told to,
		// and an interrupt ends that.
		result := filepath.Join(p.home, "hangs.json")
		cmd := exec.Command(sbxhost, "exec", "-sandbox", "fast", "-result", result, "--", "sh", "-c", "exit 7")
		cmd.Dir, cmd.Env = p.project, append(p.env(), hangs, "OTEL_EXPORTER_OTLP_TIMEOUT=600000")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until(t, "the result", func() bool {
			info, err := os.Stat(result)
			return err == nil && info.Size() > 0 // at the beginning an empty file was made there, to see whether that can be done
		})
		ended := make(chan struct{})
		go func() {
			_ = cmd.Wait()
			close(ended)
		}()
		interrupt := os.Signal(os.Interrupt)
		if signal.Ignored(interrupt) { // by what has started the tests, such as a shell's job in the background
			interrupt = syscall.SIGTERM
		}
		for waiting := true; waiting; {
			// One that comes before sbxhost waits is the command's, which has ended.
			if err := cmd.Process.Signal(interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Fatal(err)
			}
			select {
			case <-ended:
				waiting = false
			case <-time.After(5 * time.Second):
			}
		}
		if status := cmd.ProcessState.ExitCode(); status != 7 || !strings.Contains(stderr.String(), "telemetry: "+interrupt.String()) {
			t.Errorf("status %d\n%s", status, stderr.String())
		}
	})
	t.Run("not sampled", func(t *testing.T) {
		out, _, _ := run(sbxhost, append(httpEnv, "TRACEPARENT=00-"+trace+"-"+parent+"-00"), "-sandbox", "fast", "--", "sh", "-c", "echo $TRACEPARENT")
		if spans, metrics, _ := r.take(); len(spans) != 0 || len(metrics) != 2 || !strings.HasSuffix(out, "-00\n") {
			t.Errorf("%d spans, metrics %q, and the command sees %q", len(spans), metrics, out)
		}
	})
	t.Run("nothing unasked", func(t *testing.T) {
		out, stderr, status := run(sbxhost, []string{"TRACEPARENT=00-" + trace + "-" + parent + "-01"}, "-sandbox", "fast", "--", "sh", "-c", "echo -$TRACEPARENT-")
		if spans, metrics, _ := r.take(); len(spans)+len(metrics) != 0 || out != "--\n" || status != 0 || stderr != "" {
			t.Errorf("%d spans, %d metrics, %q %q %d", len(spans), len(metrics), out, stderr, status)
		}
	})
	t.Run("trouble is told and costs no command", func(t *testing.T) {
		alone := t.TempDir()
		if err := os.Link(sbxhost, filepath.Join(alone, "sbxhost")); err != nil {
			t.Fatal(err)
		}
		page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			w.Write(bytes.Repeat([]byte("<p>\x1b[31m</p>\n"), 50_000))
		}))
		defer page.Close()
		for _, c := range []struct {
			program string
			env     []string
			want    string
		}{
			{sbxhost, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + page.URL, patient}, "500 Internal Server Error"},
			{sbxhost, append(httpEnv, "OTEL_EXPORTER_OTLP_HEADERS=authorization: Bearer "+secret), "OTEL_EXPORTER_OTLP_HEADERS: entry 1 is not of the form name=value"},
			{filepath.Join(alone, "sbxhost"), httpEnv, "install it beside sbxhost"},
			{sbxhost, append(httpEnv, "OTEL_TRACES_SAMPLER=jaeger_remote"), "OTEL_TRACES_SAMPLER"},
			{sbxhost, append(httpEnv, "OTEL_TRACES_EXPORTER=zipkin"), `"zipkin" is neither otlp nor none`},
			{sbxhost, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT=200"}, "telemetry: "},
		} {
			out, stderr, status := run(c.program, c.env, "-sandbox", "fast", "--", "echo", "ran")
			if out != "ran\n" || status != 0 || !strings.Contains(stderr, c.want) || strings.ContainsAny(stderr, "\x1b") || strings.Contains(stderr, secret) || len(stderr) > 4000 {
				t.Errorf("want %q in %.4000q; the command said %q, status %d", c.want, stderr, out, status)
			}
		}
		r.take()
	})
	for _, kept := range []string{secret, "TRACEPARENT", p.project} {
		if strings.Contains(r.all.String(), kept) {
			t.Errorf("telemetry holds %q", kept)
		}
	}
	if !strings.Contains(r.all.String(), "native") {
		t.Error("the control fails: nothing of what was sent is seen")
	}
	until(t, "all processes to be gone", func() bool { return len(p.running()) == 0 })
}
