package driver

import (
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/nomad/plugins/drivers/proto"

	"github.com/sbxhost/sbxhost/host"
)

// Paths of a task's directories, as in Nomad's variables for a driver with its own root.
const (
	localDir   = "/local"
	allocDir   = "/alloc"
	secretsDir = "/secrets"
)

// A plan is a task in the host's terms.
type plan struct {
	Sandbox    string
	Definition host.Definition
	// Workspace is the task's local directory on the node.
	Workspace string
	Args      []string
	Script    string
	Env       []string
}

// translate says how to run a task. It refuses settings that the sandbox does not enforce, by their
// name in the job.
func translate(agent agentConfig, definitions map[string]host.Definition, processors int, task *proto.TaskConfig) (p plan, err error) {
	var job jobConfig
	if err := decode(task.MsgpackDriverConfig, &job); err != nil {
		return p, err
	}
	p.Sandbox = agent.Sandboxes[0]
	if job.Sandbox != nil {
		p.Sandbox = *job.Sandbox
	}
	if !slices.Contains(agent.Sandboxes, p.Sandbox) {
		return p, fmt.Errorf("config.sandbox: this node lets jobs use %s, not %q", strings.Join(agent.Sandboxes, ", "), p.Sandbox)
	}
	def, ok := definitions[p.Sandbox]
	if !ok {
		return p, fmt.Errorf("config.sandbox: %q is allowed on this node, and %s does not define it", p.Sandbox, agent.Definitions)
	}
	switch {
	case (job.Command == nil) == (job.Script == nil):
		return p, fmt.Errorf("config.command: give either command or script")
	case job.Script != nil:
		p.Script, p.Args = *job.Script, job.Args
	default:
		p.Args = append([]string{*job.Command}, job.Args...)
	}
	if err := refuse(task); err != nil {
		return p, err
	}
	if job.Network != nil {
		if def.Network, err = narrowNetwork(p.Sandbox, def.Network, job.Network); err != nil {
			return p, err
		}
	}
	if def.Publish, err = publish(agent, p.Sandbox, def, task); err != nil {
		return p, err
	}
	share := 0.0
	if job.CPUHardLimit != nil && *job.CPUHardLimit {
		share = task.GetResources().GetLinuxResources().GetPercentTicks() * float64(processors)
	}
	narrowLimits(&def.Limits, task.GetResources().GetLinuxResources().GetMemoryLimitBytes(), share)

	dir := filepath.Join(task.AllocDir, task.Name)
	p.Workspace = filepath.Join(dir, "local")
	def.Workdir = localDir
	def.BindPaths = append(slices.Clone(def.BindPaths),
		host.Bind{Host: filepath.Join(task.AllocDir, "alloc"), Container: allocDir, Writable: !def.ReadOnly},
		host.Bind{Host: filepath.Join(dir, "secrets"), Container: secretsDir, Writable: !def.ReadOnly})
	// The agent's log fifos are there. If a task replaced one by a symlink, the executor, which
	// root runs, would write to the link's target after a restart.
	def.ProtectPaths = append(slices.Clone(def.ProtectPaths), filepath.Join(task.AllocDir, "alloc/logs"))
	for _, m := range task.Mounts {
		def.BindPaths = append(def.BindPaths, host.Bind{Host: m.HostPath, Container: m.TaskPath, Writable: !m.Readonly && !def.ReadOnly})
	}
	for _, name := range slices.Sorted(maps.Keys(task.Env)) {
		p.Env = append(p.Env, name+"="+task.Env[name])
	}
	p.Definition = def
	return p, nil
}

// refuse names the settings that no sandbox enforces.
func refuse(task *proto.TaskConfig) error {
	network := task.NetworkIsolationSpec
	switch {
	case task.User != "" && task.User != "nobody":
		return fmt.Errorf("user: tasks run as the owner of their directories, which is nobody, and not as %q: leave it out", task.User)
	case len(task.Devices) > 0:
		return fmt.Errorf("device: a sandbox has no device of the node, such as %s: leave it out", task.Devices[0].HostPath)
	case len(task.GetDns().GetServers())+len(task.GetDns().GetSearches())+len(task.GetDns().GetOptions()) > 0:
		return fmt.Errorf("network.dns: a sandbox has the node's resolver, or that of its list of names: leave it out")
	case network.GetMode() == proto.NetworkIsolationSpec_TASK,
		network.GetMode() == proto.NetworkIsolationSpec_GROUP && network.Path == "":
		return fmt.Errorf("network.mode: a sandbox can join a group's network namespace by its path, and the agent gave none: use host, none, bridge or cni")
	}
	for _, m := range task.Mounts {
		if m.PropagationMode != "" && m.PropagationMode != "private" {
			return fmt.Errorf("volume_mount.propagation_mode: mounts in a sandbox are private, not %q: leave it out", m.PropagationMode)
		}
	}
	return nil
}

// narrowNetwork leaves a sandbox only the rules that a job asks for.
func narrowNetwork(sandbox string, has host.Network, wanted []string) (host.Network, error) {
	for i, rule := range wanted {
		if !has.Host && !slices.Contains(has.Names, rule) {
			return has, fmt.Errorf("config.network[%d]: sandbox %q does not have %q: a job can only ask for rules that its sandbox has, word by word", i, sandbox, rule)
		}
	}
	if len(wanted) == 0 {
		return host.Network{}, nil
	}
	return host.Network{Names: wanted}, nil
}

// publish lets the ports that Nomad has chosen lead into the sandbox.
func publish(agent agentConfig, sandbox string, def host.Definition, task *proto.TaskConfig) ([]string, error) {
	ports := task.GetResources().GetPorts()
	if len(ports) == 0 || def.Network.Host {
		return def.Publish, nil // the task listens there itself
	}
	if agent.Publish == nil || !*agent.Publish {
		return nil, fmt.Errorf("network.port %q: sandbox %q does not have the node's network, and the plugin's configuration does not say publish = true", ports[0].Label, sandbox)
	}
	list := slices.Clone(def.Publish)
	for _, p := range ports {
		address, outside, inside := p.HostIp, p.Value, p.To
		if inside <= 0 {
			inside = p.Value
		}
		if task.NetworkIsolationSpec.GetMode() == proto.NetworkIsolationSpec_GROUP {
			address, outside = "0.0.0.0", inside // in the group's namespace; Nomad leads the node's port there
		}
		list = append(list, fmt.Sprintf("%s:%d", net.JoinHostPort(address, fmt.Sprint(outside)), inside))
	}
	return list, nil
}

// narrowLimits adds Nomad's reservations for the task. A lower limit of the definition stays.
func narrowLimits(limits *host.Limits, memory int64, cpus float64) {
	if memory > 0 && (limits.Memory == 0 || uint64(memory) < limits.Memory) {
		limits.Memory = uint64(memory)
	}
	if cpus > 0 && (limits.CPUs == 0 || cpus < limits.CPUs) {
		limits.CPUs = cpus
	}
}
