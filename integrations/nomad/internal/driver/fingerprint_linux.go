package driver

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	structsproto "github.com/hashicorp/nomad/plugins/shared/structs/proto"

	"github.com/sbxhost/sbxhost/host"
)

// fingerprintTime is how often the driver checks whether its sandboxes still work.
const fingerprintTime = 30 * time.Second

// Fingerprint reports which sandboxes work on this node, again and again.
func (d *driver) Fingerprint(_ *proto.FingerprintRequest, stream proto.Driver_FingerprintServer) error {
	next := time.NewTicker(fingerprintTime)
	defer next.Stop()
	for {
		d.mu.Lock()
		agent, set := d.agent, d.config != nil
		d.mu.Unlock()
		print := &proto.FingerprintResponse{HealthDescription: "the agent has not configured the plugin: it needs definitions and sandboxes"}
		if set {
			print = fingerprint(stream.Context(), agent)
		}
		if err := stream.Send(print); err != nil {
			return err
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-next.C:
		}
	}
}

// fingerprint tries each sandbox that jobs may use, and each engine. The driver is healthy if one
// sandbox works; a job can require its own sandbox by the attribute.
func fingerprint(ctx context.Context, agent agentConfig) *proto.FingerprintResponse {
	attributes := map[string]*structsproto.Attribute{}
	yes := func(name string) {
		attributes["driver.sbxhost"+name] = &structsproto.Attribute{Value: &structsproto.Attribute_BoolVal{BoolVal: true}}
	}
	yes("")
	attributes["driver.sbxhost.version"] = &structsproto.Attribute{Value: &structsproto.Attribute_StringVal{StringVal: version()}}
	print := &proto.FingerprintResponse{Attributes: attributes, Health: proto.FingerprintResponse_UNHEALTHY}
	h, remove, err := trialHost(ctx, agent)
	if err != nil {
		print.HealthDescription = err.Error()
		return print
	}
	defer remove()
	for _, engine := range h.AutoEngines() {
		if probe, err := h.EngineProbe(ctx, engine); err == nil && probe.Ready {
			yes(".engine." + engine)
		}
	}
	var problems []string
	for _, name := range agent.Sandboxes {
		if err := h.Check(ctx, name); err != nil {
			problems = append(problems, err.Error())
			continue
		}
		yes(".sandbox." + name)
		print.Health = proto.FingerprintResponse_HEALTHY
	}
	print.HealthDescription = "Healthy"
	if len(problems) > 0 {
		print.HealthDescription = strings.Join(problems, "; ")
	}
	return print
}

// trialHost makes a host with the sandboxes that jobs may use, and an empty workspace.
func trialHost(ctx context.Context, agent agentConfig) (_ *host.Host, remove func(), err error) {
	_, options, err := load(agent)
	if err != nil {
		return nil, nil, err
	}
	base, err := stateDir()
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp(base, "trial-")
	if err != nil {
		return nil, nil, err
	}
	options.Workspace.Root, options.Dir, options.DefaultSandbox = dir, dir, agent.Sandboxes[0]
	h, err := host.New(ctx, options)
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	return h, func() {
		h.Close()
		os.RemoveAll(dir)
	}, nil
}
