package telemetry

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	span  = "00f067aa0ba902b7"
)

func TestParseTraceparent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Context{
		"00-" + trace + "-" + span + "-01":                    {trace, span, true, "a=b"},
		"00-" + trace + "-" + span + "-00":                    {trace, span, false, "a=b"},
		"00-" + trace + "-" + span + "-03":                    {trace, span, true, "a=b"},
		"cc-" + trace + "-" + span + "-01-what":               {trace, span, true, "a=b"},
		"":                                                    {},
		"00-" + trace + "-" + span:                            {},
		"ff-" + trace + "-" + span + "-01":                    {},
		"00-" + trace + "-" + span + "-01-more":               {},
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":   {},
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":  {},
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01": {},
		"00-" + trace + "x-" + span + "-01":                   {},
		"00-" + trace + "-" + span + "-1":                     {},
	} {
		got, err := ParseTraceparent(text, "a=b")
		if got != want || (err == nil) != (want != Context{}) || err != nil && !errors.Is(err, ErrTraceparent) {
			t.Errorf("%q: %+v, error %v", text, got, err)
		}
	}
}

func FuzzParseTraceparent(f *testing.F) {
	f.Add("00-" + trace + "-" + span + "-01")
	f.Add("cc-" + trace + "-" + span + "-ff-x")
	f.Add("----")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseTraceparent(text, "")
		if err != nil {
			return
		}
		if again, err := ParseTraceparent(c.Traceparent(), ""); err != nil || again != c {
			t.Errorf("%q is %+v, and its own text %q is %+v (%v)", text, c, c.Traceparent(), again, err)
		}
	})
}

func TestChild(t *testing.T) {
	t.Parallel()
	parent, on := Context{trace, span, false, "a=b"}, Context{trace, span, true, ""}
	for _, c := range []struct {
		parent        Context
		sampler, arg  string
		sampled, fail bool
	}{
		{Context{}, "", "", true, false},
		{parent, "", "", false, false},
		{on, "", "", true, false},
		{on, "parentbased_always_off", "", true, false},
		{Context{}, "parentbased_always_off", "", false, false},
		{on, "always_off", "", false, false},
		{parent, "always_on", "", true, false},
		{Context{}, "traceidratio", "0", false, false},
		{Context{}, "parentbased_traceidratio", "1", true, false},
		{Context{}, "traceidratio", "", true, false},
		{parent, "traceidratio", "0.65", true, false}, // a3ce.../2^64 is 0.6399
		{parent, "traceidratio", "0.63", false, false},
		{Context{}, "traceidratio", "2", false, true},
		{Context{}, "jaeger_remote", "", false, true},
	} {
		got, err := Child(c.parent, c.sampler, c.arg)
		if got.Sampled != c.sampled || (err != nil) != c.fail {
			t.Errorf("%+v: %+v, error %v", c, got, err)
		}
		if _, err := ParseTraceparent(got.Traceparent(), ""); err != nil || got.SpanID == c.parent.SpanID || got.State != c.parent.State ||
			c.parent.TraceID != "" && got.TraceID != c.parent.TraceID {
			t.Errorf("%+v: a child %+v, error %v", c, got, err)
		}
	}
}

func TestWanted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"":                                     false,
		"OTEL_SERVICE_NAME=x":                  false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://h": true,
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=http://h":                                       true,
		"OTEL_TRACES_EXPORTER=otlp":                                                          true,
		"OTEL_TRACES_EXPORTER=none":                                                          false,
		"OTEL_METRICS_EXPORTER=otlp,OTEL_TRACES_EXPORTER=none":                               true,
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://h,OTEL_SDK_DISABLED=TRUE":                        false,
		"OTEL_EXPORTER_OTLP_ENDPOINT=h,OTEL_TRACES_EXPORTER=none,OTEL_METRICS_EXPORTER=none": false,
	} {
		if got := Requested(environment(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestExports(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]bool{
		"":                                      {},
		"OTEL_EXPORTER_OTLP_ENDPOINT=h":         {true, true},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=h":  {true, false},
		"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT=h": {false, true},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=h,OTEL_METRICS_EXPORTER=otlp": {true, true},
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=h,OTEL_TRACES_EXPORTER=none":  {false, false},
		"OTEL_EXPORTER_OTLP_ENDPOINT=h,OTEL_METRICS_EXPORTER=none":        {true, false},
	} {
		getenv := environment(text)
		if got := [2]bool{Exports(getenv, Traces), Exports(getenv, Metrics)}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestPatience(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"":                              0,
		"OTEL_EXPORTER_OTLP_ENDPOINT=h": 2 * time.Second,
		"OTEL_EXPORTER_OTLP_ENDPOINT=h,OTEL_EXPORTER_OTLP_TIMEOUT=300":                                        300 * time.Millisecond,
		"OTEL_EXPORTER_OTLP_ENDPOINT=h,OTEL_EXPORTER_OTLP_TIMEOUT=30000":                                      30 * time.Second,
		"OTEL_EXPORTER_OTLP_ENDPOINT=h,OTEL_EXPORTER_OTLP_TIMEOUT=300,OTEL_EXPORTER_OTLP_METRICS_TIMEOUT=400": 400 * time.Millisecond,
		"OTEL_EXPORTER_OTLP_ENDPOINT=h,OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=9000,OTEL_TRACES_EXPORTER=none":      2 * time.Second,
		"OTEL_EXPORTER_OTLP_ENDPOINT=h,OTEL_EXPORTER_OTLP_TIMEOUT=soon":                                       2 * time.Second,
		"OTEL_EXPORTER_OTLP_ENDPOINT=h,OTEL_EXPORTER_OTLP_TIMEOUT=0":                                          2 * time.Second,
	} {
		if got := Patience(environment(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func environment(text string) func(string) string {
	env := map[string]string{}
	for entry := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return func(name string) string { return env[name] }
}
