package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/sbxhost/sbxhost/internal/telemetry"
)

const scope = "github.com/sbxhost/sbxhost"

// maxRecord is the longest record, in bytes.
const maxRecord = 1 << 20

// export reads records to the end of in, and returns after it has sent them, or has failed.
func export(ctx context.Context, in io.Reader, getenv func(string) string) (err error) {
	if err := checkSettings(getenv); err != nil {
		return err
	}
	var logged sdkLog
	logged.listen()
	defer func() { err = logged.joinLogged(err) }()
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "sbxhost")),
		resource.WithTelemetrySDK(), resource.WithFromEnv()) // the last one counts
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	var failures collected
	otel.SetErrorHandler(&failures)
	ids := &givenIDs{}
	traces, err := newTracerProvider(ctx, getenv, res, ids)
	if err != nil {
		return err
	}
	metrics, err := newMeterProvider(ctx, getenv, res)
	if err != nil {
		return err
	}
	defer func() {
		patience := telemetry.Patience(getenv)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		// Together, so that it waits only once for a receiver that hangs.
		ended := make(chan error)
		go func() { ended <- traces.Shutdown(ctx) }()
		metricsErr := metrics.Shutdown(ctx)
		if err = errors.Join(err, <-ended, metricsErr, failures.err()); errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			err = fmt.Errorf("not all was sent in %v (OTEL_EXPORTER_OTLP_TIMEOUT, in milliseconds, says how long that may take): %w", patience, err)
		}
	}()

	counter, err := metrics.Meter(scope).Int64Counter("sbxhost.sandbox.execs", metric.WithDescription("commands run, or refused"), metric.WithUnit("{command}"))
	if err != nil {
		return err
	}
	duration, err := metrics.Meter(scope).Float64Histogram("sbxhost.sandbox.exec.duration", metric.WithDescription("time from the request to the command's end"), metric.WithUnit("s"))
	if err != nil {
		return err
	}
	records := json.NewDecoder(io.LimitReader(in, maxRecord))
	for {
		var r telemetry.Record
		if err := records.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("a record cannot be read: %w", err)
		}
		if err := span(ctx, traces.Tracer(scope), ids, &r); err != nil {
			return err
		}
		set := metric.WithAttributeSet(attribute.NewSet(dimensions(&r)...))
		counter.Add(ctx, 1, set)
		duration.Record(ctx, r.End.Sub(r.Start).Seconds(), set)
	}
}

// collected are the errors that the SDK can return to nobody.
type collected struct {
	mu   sync.Mutex
	errs []error
}

func (c *collected) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

func (c *collected) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Join(c.errs...)
}

// dimensions are the attributes with few values; metrics have them, too.
func dimensions(r *telemetry.Record) []attribute.KeyValue {
	attrs := []attribute.KeyValue{
		attribute.String("sbxhost.sandbox", r.Sandbox), attribute.String("sbxhost.engine", r.Engine), attribute.String("sbxhost.outcome", r.Outcome),
	}
	if r.Decision != "" {
		attrs = append(attrs, attribute.String("sbxhost.decision", r.Decision), attribute.String("sbxhost.rule", r.Rule))
	}
	return attrs
}

// span makes the span of a record, with the identity that the command already has for it.
func span(ctx context.Context, tracer trace.Tracer, ids *givenIDs, r *telemetry.Record) (err error) {
	if ids.trace, err = trace.TraceIDFromHex(r.TraceID); err != nil {
		return fmt.Errorf("a record's trace_id: %w", err)
	}
	if ids.span, err = trace.SpanIDFromHex(r.SpanID); err != nil {
		return fmt.Errorf("a record's span_id: %w", err)
	}
	state, err := trace.ParseTraceState(r.TraceState)
	if err != nil {
		state = trace.TraceState{} // somebody else's; do not judge it
	}
	if r.ParentID != "" {
		parent, err := trace.SpanIDFromHex(r.ParentID)
		if err != nil {
			return fmt.Errorf("a record's parent_id: %w", err)
		}
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: ids.trace, SpanID: parent, TraceState: state, Remote: true,
		}))
	}
	ids.sampled = r.Sampled
	attrs := append(dimensions(r), attribute.Int("sbxhost.degraded", r.Degraded), attribute.Int64("sbxhost.duration_ms", r.DurationMS))
	if r.ExitCode != nil {
		attrs = append(attrs, attribute.Int("process.exit.code", *r.ExitCode))
	}
	if r.Signal != "" {
		attrs = append(attrs, attribute.String("sbxhost.signal", r.Signal))
	}
	_, s := tracer.Start(ctx, r.SpanName(), trace.WithTimestamp(r.Start), trace.WithAttributes(attrs...))
	if r.Outcome != "exited" || r.ExitCode != nil && *r.ExitCode != 0 {
		s.SetStatus(codes.Error, r.Outcome)
	}
	s.End(trace.WithTimestamp(r.End))
	return nil
}

// givenIDs gives each span the identity and the sampling that sbxhost fixed at the command's start,
// and that the command may have passed on.
type givenIDs struct {
	trace   trace.TraceID
	span    trace.SpanID
	sampled bool
}

func (g *givenIDs) NewIDs(context.Context) (trace.TraceID, trace.SpanID)  { return g.trace, g.span }
func (g *givenIDs) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return g.span }
func (g *givenIDs) Description() string                                   { return "settled by sbxhost" }
func (g *givenIDs) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	result := sdktrace.SamplingResult{Decision: sdktrace.Drop, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
	if g.sampled {
		result.Decision = sdktrace.RecordAndSample
	}
	return result
}

func newTracerProvider(ctx context.Context, getenv func(string) string, res *resource.Resource, ids *givenIDs) (*sdktrace.TracerProvider, error) {
	options := []sdktrace.TracerProviderOption{sdktrace.WithResource(res), sdktrace.WithIDGenerator(ids), sdktrace.WithSampler(ids)}
	protocol, err := exporter(getenv, telemetry.Traces)
	if err != nil || protocol == "none" {
		return sdktrace.NewTracerProvider(options...), err
	}
	var e sdktrace.SpanExporter
	if protocol == "grpc" {
		e, err = otlptracegrpc.New(ctx, otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}))
	} else {
		e, err = otlptracehttp.New(ctx, otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}))
	}
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	return sdktrace.NewTracerProvider(append(options, sdktrace.WithBatcher(e))...), nil
}

func newMeterProvider(ctx context.Context, getenv func(string) string, res *resource.Resource) (*sdkmetric.MeterProvider, error) {
	protocol, err := exporter(getenv, telemetry.Metrics)
	if err != nil || protocol == "none" {
		return sdkmetric.NewMeterProvider(sdkmetric.WithResource(res)), err
	}
	var e sdkmetric.Exporter
	if protocol == "grpc" {
		e, err = otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithRetry(otlpmetricgrpc.RetryConfig{}))
	} else {
		e, err = otlpmetrichttp.New(ctx, otlpmetrichttp.WithRetry(otlpmetrichttp.RetryConfig{}))
	}
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e))), nil
}

// exporter returns the protocol for a signal's export: "grpc", "http/protobuf", or "none". Nothing
// is sent twice: each try delays somebody.
func exporter(getenv func(string) string, signal string) (string, error) {
	name := "OTEL_" + signal + "_EXPORTER"
	switch kind := getenv(name); kind {
	case "", "none":
		if !telemetry.Exports(getenv, signal) {
			return "none", nil
		}
	case "otlp":
	default:
		return "", fmt.Errorf("%s: %q is neither otlp nor none, which are what sbxhost exports by", name, kind)
	}
	name = "OTEL_EXPORTER_OTLP_" + signal + "_PROTOCOL"
	protocol := getenv(name)
	if protocol == "" {
		name = "OTEL_EXPORTER_OTLP_PROTOCOL"
		protocol = getenv(name)
	}
	switch strings.ToLower(protocol) {
	case "", "http/protobuf":
		return "http/protobuf", nil
	case "grpc":
		return "grpc", nil
	}
	return "", fmt.Errorf("%s: %q is neither grpc nor http/protobuf", name, protocol)
}
