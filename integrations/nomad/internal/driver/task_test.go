package driver

import (
	"bytes"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/nomad/plugins/drivers/proto"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/msgpack"

	"github.com/sbxhost/sbxhost/host"
)

// encode gives a block as Nomad sends it: what is left out is null.
func encode(t testing.TB, block any, values map[string]cty.Value) []byte {
	t.Helper()
	all := map[string]cty.Value{}
	for name, of := range typeOf(block).AttributeTypes() {
		all[name] = cty.NullVal(of)
		if v, ok := values[name]; ok {
			all[name] = v
		}
	}
	data, err := msgpack.Marshal(cty.ObjectVal(all), typeOf(block))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func words(list ...string) cty.Value {
	if len(list) == 0 {
		return cty.ListValEmpty(cty.String)
	}
	var values []cty.Value
	for _, word := range list {
		values = append(values, cty.StringVal(word))
	}
	return cty.ListVal(values)
}

func TestAgentConfig(t *testing.T) {
	t.Parallel()
	for want, block := range map[string]map[string]cty.Value{
		"":                                     {"definitions": cty.StringVal("/etc/sbx.hcl"), "sandboxes": words("a", "b"), "publish": cty.True},
		`definitions: "sbx.hcl" is not an abs`: {"definitions": cty.StringVal("sbx.hcl"), "sandboxes": words("a")},
		"sandboxes: list the names":            {"definitions": cty.StringVal("/etc/sbx.hcl"), "sandboxes": words()},
	} {
		c, err := decodeAgent(encode(t, agentConfig{}, block))
		switch {
		case want == "" && (err != nil || c.Definitions != "/etc/sbx.hcl" || !slices.Equal(c.Sandboxes, []string{"a", "b"}) || !*c.Publish):
			t.Errorf("%+v, %v", c, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, data := range [][]byte{nil, {0xc0}, []byte("text"), encode(t, jobConfig{}, nil)} {
		if c, err := decodeAgent(data); err == nil {
			t.Errorf("%q is %+v", data, c)
		}
	}
}

// Nothing that comes of the wire panics, and what is read is a config.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, jobConfig{}, map[string]cty.Value{"command": cty.StringVal("ls"), "args": words("-l")}))
	f.Add(encode(f, agentConfig{}, map[string]cty.Value{"definitions": cty.StringVal("/x"), "sandboxes": words("a")}))
	f.Add([]byte{0xc0})
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := decodeAgent(data); err == nil && (c.Definitions[0] != '/' || len(c.Sandboxes) == 0) {
			t.Errorf("%+v", c)
		}
		var job jobConfig
		decode(data, &job)
	})
}

func TestTranslate(t *testing.T) {
	t.Parallel()
	yes := true
	agent := agentConfig{Definitions: "/etc/sbx.hcl", Sandboxes: []string{"plain", "names", "online", "gone"}}
	definitions := map[string]host.Definition{
		"plain":  {Engine: "native", ReadOnly: true, Limits: host.Limits{Memory: 100, Timeout: time.Minute}},
		"names":  {Network: host.Network{Names: []string{"a.example", "b.example"}}, BindPaths: []host.Bind{{Host: "/data"}}, Publish: []string{"9"}},
		"online": {Network: host.Network{Host: true}},
		"other":  {},
	}
	type block = map[string]cty.Value
	resources := func(memory int64, share float64, ports ...*proto.PortMapping) *proto.Resources {
		return &proto.Resources{LinuxResources: &proto.LinuxResources{MemoryLimitBytes: memory, PercentTicks: share}, Ports: ports}
	}
	web := &proto.PortMapping{Label: "web", Value: 20001, To: 80, HostIp: "192.0.2.1"}
	group := &proto.NetworkIsolationSpec{Mode: proto.NetworkIsolationSpec_GROUP, Path: "/run/netns/x"}
	ls := cty.StringVal("ls")
	for name, tt := range map[string]struct {
		job     block
		task    proto.TaskConfig
		publish bool
		want    func(*plan)
		refused string
	}{
		"the first sandbox": {job: block{"command": ls, "args": words("-l", "/")}, task: proto.TaskConfig{Resources: resources(200, 0.5), Env: map[string]string{"B": "2", "A": "1"}},
			want: func(p *plan) {
				p.Args, p.Env = []string{"ls", "-l", "/"}, []string{"A=1", "B=2"}
			}},
		"a script, less memory, processors": {job: block{"script": cty.StringVal("echo $1"), "args": words("x"), "cpu_hard_limit": cty.True}, task: proto.TaskConfig{Resources: resources(50, 0.25)},
			want: func(p *plan) {
				p.Script, p.Args = "echo $1", []string{"x"}
				p.Definition.Limits.Memory, p.Definition.Limits.CPUs = 50, 1
			}},
		"fewer names": {job: block{"command": ls, "sandbox": cty.StringVal("names"), "network": words("b.example")},
			want: func(p *plan) { p.Definition.Network.Names = []string{"b.example"} }},
		"no names": {job: block{"command": ls, "sandbox": cty.StringVal("names"), "network": words()},
			want: func(p *plan) { p.Definition.Network = host.Network{} }},
		"names of all": {job: block{"command": ls, "sandbox": cty.StringVal("online"), "network": words("c.example")},
			want: func(p *plan) { p.Definition.Network = host.Network{Names: []string{"c.example"}} }},
		"a volume": {job: block{"command": ls, "sandbox": cty.StringVal("names")}, task: proto.TaskConfig{Mounts: []*proto.Mount{{HostPath: "/srv/v", TaskPath: "/v", Readonly: true, PropagationMode: "private"}}},
			want: func(p *plan) {
				p.Definition.BindPaths = append(p.Definition.BindPaths, host.Bind{Host: "/srv/v", Container: "/v"})
			}},
		"ports of the node's network": {job: block{"command": ls, "sandbox": cty.StringVal("online")}, task: proto.TaskConfig{Resources: resources(0, 0, web)}},
		"ports": {job: block{"command": ls, "sandbox": cty.StringVal("names")}, task: proto.TaskConfig{Resources: resources(0, 0, web, &proto.PortMapping{Value: 20002, HostIp: "2001:db8::1"})}, publish: true,
			want: func(p *plan) {
				p.Definition.Publish = []string{"9", "192.0.2.1:20001:80", "[2001:db8::1]:20002:20002"}
			}},
		"ports of a group": {job: block{"command": ls, "sandbox": cty.StringVal("names")}, task: proto.TaskConfig{Resources: resources(0, 0, web), NetworkIsolationSpec: group}, publish: true,
			want: func(p *plan) { p.Definition.Publish = []string{"9", "0.0.0.0:80:80"} }},

		"not allowed":      {job: block{"command": ls, "sandbox": cty.StringVal("other")}, refused: `config.sandbox: this node lets jobs use plain, names, online, gone, not "other"`},
		"not defined":      {job: block{"command": ls, "sandbox": cty.StringVal("gone")}, refused: `config.sandbox: "gone" is allowed on this node, and /etc/sbx.hcl does not define it`},
		"nothing to run":   {refused: "config.command: give either"},
		"too much to run":  {job: block{"command": ls, "script": ls}, refused: "config.command: give either"},
		"more names":       {job: block{"command": ls, "sandbox": cty.StringVal("names"), "network": words("a.example", "c.example")}, refused: `config.network[1]: sandbox "names" does not have "c.example"`},
		"names of none":    {job: block{"command": ls, "network": words("a.example")}, refused: `config.network[0]: sandbox "plain"`},
		"a port":           {job: block{"command": ls}, task: proto.TaskConfig{Resources: resources(0, 0, web)}, refused: `network.port "web": sandbox "plain"`},
		"a user":           {job: block{"command": ls}, task: proto.TaskConfig{User: "root"}, refused: "user: tasks run as"},
		"a device":         {job: block{"command": ls}, task: proto.TaskConfig{Devices: []*proto.Device{{HostPath: "/dev/kvm"}}}, refused: "device: "},
		"a resolver":       {job: block{"command": ls}, task: proto.TaskConfig{Dns: &proto.DNSConfig{Servers: []string{"192.0.2.1"}}}, refused: "network.dns: "},
		"a task's network": {job: block{"command": ls}, task: proto.TaskConfig{NetworkIsolationSpec: &proto.NetworkIsolationSpec{Mode: proto.NetworkIsolationSpec_TASK}}, refused: "network.mode: "},
		"a container's":    {job: block{"command": ls}, task: proto.TaskConfig{NetworkIsolationSpec: &proto.NetworkIsolationSpec{Mode: proto.NetworkIsolationSpec_GROUP}}, refused: "network.mode: "},
		"propagation":      {job: block{"command": ls}, task: proto.TaskConfig{Mounts: []*proto.Mount{{PropagationMode: "bidirectional"}}}, refused: "volume_mount.propagation_mode: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := agent
			if tt.publish {
				agent.Publish = &yes
			}
			task := &tt.task
			task.AllocDir, task.Name = "/a", "t"
			task.MsgpackDriverConfig = encode(t, jobConfig{}, tt.job)
			got, err := translate(agent, definitions, 4, task)
			if tt.refused != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.refused) {
					t.Errorf("want %q, got %v", tt.refused, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			sandbox := "plain"
			if v, ok := tt.job["sandbox"]; ok {
				sandbox = v.AsString()
			}
			want := plan{Sandbox: sandbox, Definition: definitions[sandbox], Workspace: "/a/t/local", Args: []string{"ls"}}
			d := &want.Definition
			d.Workdir, d.ProtectPaths = "/local", []string{"/a/alloc/logs"}
			d.BindPaths = append(slices.Clone(d.BindPaths), host.Bind{Host: "/a/alloc", Container: "/alloc", Writable: !d.ReadOnly},
				host.Bind{Host: "/a/t/secrets", Container: "/secrets", Writable: !d.ReadOnly})
			if tt.want != nil {
				tt.want(&want)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, want)
			}
			if err := got.Definition.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
	if d := definitions["names"]; len(d.BindPaths) != 1 || len(d.Publish) != 1 {
		t.Errorf("a job has changed the definition: %+v", d)
	}
}

// Of Nomad, whose licence allows less elsewhere, the program links four packages that are
// under the MPL.
func TestLinksOnlyTheProtocol(t *testing.T) {
	t.Parallel()
	const module = "github.com/hashicorp/nomad/"
	cmd := exec.Command("go", "list", "-deps", "./...")
	cmd.Stderr = new(bytes.Buffer)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, cmd.Stderr)
	}
	var linked []string
	for pkg := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(pkg), module); ok {
			linked = append(linked, name)
		}
	}
	slices.Sort(linked)
	if want := []string{"plugins/base/proto", "plugins/drivers/proto", "plugins/shared/hclspec", "plugins/shared/structs/proto"}; !slices.Equal(linked, want) {
		t.Errorf("the driver links %v of Nomad, want %v", linked, want)
	}
	out, err = exec.Command("go", "list", "-m", "-f", "{{.Dir}}", strings.TrimSuffix(module, "/")).Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(out))
	for _, pkg := range linked {
		out, err := exec.Command("grep", "-rLZ", "--include=*.go", "SPDX-License-Identifier: MPL-2.0", dir+"/"+pkg).Output()
		for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
			if name != "" && !strings.HasSuffix(name, ".pb.go") { // generated of a .proto that says so
				t.Errorf("%s does not say that it is under the MPL", name)
			}
		}
		_ = err // grep's status says whether there are any
	}
	if text, err := exec.Command("head", "-3", dir+"/LICENSE").Output(); err != nil || !strings.Contains(string(text), "Mozilla Public License, version 2.0") {
		t.Errorf("the module's LICENSE begins %q, %v", text, err)
	}
}
