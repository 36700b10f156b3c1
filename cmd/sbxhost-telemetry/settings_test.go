package main

import (
	"bytes"
	"strings"
	"testing"
)

// What cannot be read of a setting is told by its name alone, and nothing is sent:
// neither to somewhere else, nor without what authenticates it.
func TestSettingsThatCannotBeRead(t *testing.T) {
	const canary = "c4n4ry"
	for _, tt := range []struct{ name, value, protocol, want string }{
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer " + canary, "", "entry 1 is not of the form"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer " + canary + "==", "", "entry 1 is not of the form"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "a=b,api-key=" + canary + "%zz" + canary, "", "entry 2 has a %"},
		{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "=" + canary, "grpc", "entry 1 is not of the form"},
		{"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "a=b, ," + canary, "", "entry 3 is not of the form"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:" + canary + "@[::1", "", "is no URL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://user:" + canary + "#x@host:y", "", "is no URL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:1", "", "is no URL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:1", "", "is no URL"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:1", "grpc", "is no URL"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "ftp://host", "", "is no URL"},
		{"OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "", "parse duration"}, // of the SDK's own words
		{"OTEL_EXPORTER_OTLP_HEADERS", " a=b%20c,d=, ", "", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:1", "grpc", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", " http://127.0.0.1:1 ", "", ""},
	} {
		env := map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": tt.protocol}
		env[tt.name] = tt.value
		for name, value := range env {
			t.Setenv(name, value) // the SDK reads them by itself
		}
		record := `{"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7","sampled":true,"engine":"bwrap","outcome":"exited"}`
		var stderr bytes.Buffer
		status := run(strings.NewReader(record), &stderr, func(name string) string { return env[name] })
		got := stderr.String()
		if status != 1 || strings.Contains(got, canary) || !strings.Contains(got, tt.want) {
			t.Errorf("%s=%s: status %d, %q", tt.name, tt.value, status, got)
		}
		if refused := !strings.Contains(got, "refused"); refused != (tt.want != "" && !strings.HasPrefix(tt.want, "parse")) || refused && !strings.HasPrefix(got, tt.name) {
			t.Errorf("%s=%s: %q", tt.name, tt.value, got)
		}
		t.Setenv(tt.name, "")
	}
}
