package docker

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/test/dockerd"
)

// The benchmarks come in pairs that take turns, so that what else the machine
// does weighs on both: this engine, and Docker's own command line with the same
// options on the same daemon. Run them with
//
//	go test ./plugins/docker -run '^$' -bench . -benchtime 30x
//
// They report the time of each and what is to be held: a fresh container at most
// 1.15 times docker run, a reused one at most 1.2 times docker exec.

func BenchmarkFresh(b *testing.B) {
	s := open(b, shared.Spec{Home: "/home/me"})
	plan, err := s.Plan(b.Context(), script("true"))
	if err != nil {
		b.Fatal(err)
	}
	words := withoutInit(plan.Argv)
	words = append(words, dockerd.Image, "/bin/true")
	sideBySide(b, "docker-run", s, words)
}

func BenchmarkReused(b *testing.B) {
	s := open(b, shared.Spec{Options: rawOptions(b, opts{"reuse": true})})
	sh(b, s, "true") // the container is there
	id := containers(b)
	if len(id) != 1 {
		b.Fatalf("%d containers", len(id))
	}
	sideBySide(b, "docker-exec", s, []string{"docker", "exec", "--user", "0:0", id[0], "/bin/true"})
}

// withoutInit takes what is the engine's own out of a planned docker run.
func withoutInit(argv []string) []string {
	var words []string
	for i := 0; i < len(argv); i++ {
		switch {
		case argv[i] == "--entrypoint":
			return words
		case argv[i] == "--mount" && strings.Contains(argv[i+1], ownDir):
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
