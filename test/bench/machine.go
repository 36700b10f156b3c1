package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine is what the numbers are true of.
type machine struct {
	Kernel string `json:"kernel"`
	CPU    string `json:"cpu"`
	CPUs   int    `json:"cpus"`
	Load   string `json:"load_average"`
	Bwrap  string `json:"bwrap"`
	Go     string `json:"go"`
	Arch   string `json:"arch"`
	Root   bool   `json:"root"`
}

func describeMachine(bwrap string) machine {
	version, _ := exec.Command(bwrap, "--version").Output()
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo")
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	load, _ := os.ReadFile("/proc/loadavg")
	return machine{
		Kernel: strings.TrimSpace(string(kernel)),
		CPU:    modelName(string(cpuinfo)),
		CPUs:   runtime.NumCPU(),
		Load:   strings.Join(strings.Fields(string(load))[:min(3, len(strings.Fields(string(load))))], " "),
		Bwrap:  strings.TrimSpace(strings.TrimPrefix(string(version), "bubblewrap ")),
		Go:     runtime.Version(),
		Arch:   runtime.GOARCH,
		Root:   os.Geteuid() == 0,
	}
}

// modelName is that of the first processor in /proc/cpuinfo; not every
// architecture gives one.
func modelName(cpuinfo string) string {
	for line := range strings.Lines(cpuinfo) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
