package docker

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/mount"

	"github.com/sbxhost/sbxhost/internal/testing/dockerd"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// The benchmarks come in pairs that take turns, so that what else the machine
// does weighs on both: this engine, and Docker's own command line with the same
// options on the same daemon. Run them with
//
//	go test ./plugins/docker -run '^$' -bench . -benchtime 30x
//
// They report the time of each and what is to be held: at most 1.15 times
// docker run.

func BenchmarkFresh(b *testing.B) {
	spec := shared.Spec{Home: "/home/me", Options: rawOptions(b, opts{})}
	s, planned := open(b, spec), box{engine: newEngine(b)}
	if err := planned.open(b.Context(), &spec); err != nil {
		b.Fatal(err)
	}
	p, err := planned.container("<private>")
	if err != nil {
		b.Fatal(err)
	}
	words := withoutInit(argv(p))
	words = append(words, dockerd.Image, "/bin/true")
	sideBySide(b, "docker-run", s, words)
}

// withoutInit takes what is the engine's own out of a planned docker run.
func withoutInit(argv []string) []string {
	var words []string
	for i := 0; i < len(argv); i++ {
		switch {
		case argv[i] == "--entrypoint":
			return words
		case argv[i] == "--mount" && strings.Contains(argv[i+1], plan.OwnDir):
			i++
		default:
			words = append(words, argv[i])
		}
	}
	return words
}

func sideBySide(b *testing.B, peer string, s shared.Sandbox, words []string) {
	b.Helper()
	docker, err := look("docker")
	if err != nil {
		b.Skip(err)
	}
	ours := func() {
		p, err := s.Start(b.Context(), script("true"), shared.Stdio{})
		if err != nil {
			b.Fatal(err)
		}
		if result, err := p.Wait(b.Context()); err != nil || !result.Status.Success() {
			b.Fatal(result, err)
		}
	}
	theirs := func() {
		cmd := exec.CommandContext(b.Context(), docker, words[1:]...)
		cmd.Env = []string{"DOCKER_HOST=unix://" + daemonFor(b).Socket, "HOME=/nosuch"}
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v: %v: %s", words, err, out)
		}
	}
	ours()
	theirs()
	var mine, other []float64
	for b.Loop() {
		mine = append(mine, seconds(ours))
		other = append(other, seconds(theirs))
	}
	b.ReportMetric(0, "ns/op") // of both together, which says nothing
	b.ReportMetric(1000*median(mine), "ms-engine")
	b.ReportMetric(1000*median(other), "ms-"+peer)
	b.ReportMetric(median(mine)/median(other), "ratio")
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}

func look(name string) (string, error) {
	for _, path := range []string{"/usr/bin/" + name, "/usr/local/bin/" + name} {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
}

func seconds(do func()) float64 {
	begun := time.Now()
	do()
	return time.Since(begun).Seconds()
}

// argv is the words of Docker's command line that would make a container like p, to compare
// with: the engine itself speaks to the daemon.
func argv(p *plan.Plan) []string {
	c, h := &p.Config, &p.Host
	words := []string{"docker", "run", "--rm", "--network", string(h.NetworkMode), "--user", c.User, "--workdir", c.WorkingDir,
		"--hostname", c.Hostname, "--log-driver", h.LogConfig.Type, "--no-healthcheck", "--ipc", string(h.IpcMode), "--cgroupns", string(h.CgroupnsMode)}
	add := func(name string, values ...string) {
		for _, v := range values {
			words = append(words, name, v)
		}
	}
	add("--cap-drop", h.CapDrop...)
	add("--cap-add", h.CapAdd...)
	add("--security-opt", h.SecurityOpt...)
	add("--group-add", h.GroupAdd...)
	if h.UsernsMode != "" {
		add("--userns", string(h.UsernsMode))
	}
	if h.ReadonlyRootfs {
		words = append(words, "--read-only")
	}
	if h.Memory > 0 {
		add("--memory", strconv.FormatInt(h.Memory, 10))
		add("--memory-swap", strconv.FormatInt(h.MemorySwap, 10))
	}
	if h.NanoCPUs > 0 {
		add("--cpus", strconv.FormatFloat(float64(h.NanoCPUs)/1e9, 'f', -1, 64))
	}
	if h.PidsLimit != nil {
		add("--pids-limit", strconv.FormatInt(*h.PidsLimit, 10))
	}
	add("--shm-size", strconv.FormatInt(h.ShmSize, 10))
	for _, op := range p.Ops {
		if op.Op == "tmpfs" {
			add("--tmpfs", op.Destination+":"+h.Tmpfs[op.Destination])
		}
	}
	for _, m := range h.Mounts {
		words = append(words, "--mount", mountFlag(m))
	}
	add("--entrypoint", c.Entrypoint[0])
	return append(append(words, c.Image), c.Entrypoint[1:]...)
}

// mountFlag is a mount as a record of comma-separated values, which is how
// Docker's command line takes one.
func mountFlag(m mount.Mount) string {
	fields := []string{"type=" + string(m.Type), "source=" + m.Source, "target=" + m.Target}
	if m.ReadOnly {
		fields = append(fields, "readonly")
	}
	if m.BindOptions != nil {
		fields = append(fields, "bind-propagation="+string(m.BindOptions.Propagation))
		switch {
		case m.BindOptions.NonRecursive:
			fields = append(fields, "bind-nonrecursive")
		case m.BindOptions.ReadOnlyForceRecursive:
			fields = append(fields, "bind-recursive=readonly")
		}
	}
	if m.VolumeOptions != nil && m.VolumeOptions.NoCopy {
		fields = append(fields, "volume-nocopy")
	}
	for i, f := range fields {
		if strings.ContainsAny(f, ",\"\n") {
			fields[i] = `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
		}
	}
	return strings.Join(fields, ",")
}
