package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// binaryRow is what one executable costs before its main.
type binaryRow struct {
	Name     string   `json:"name"`
	Bytes    int64    `json:"bytes"`
	Packages int      `json:"packages"` // linked
	Heavy    []string `json:"heavy"`    // of those, what an engine must not link
	Inits    int      `json:"inits"`    // packages with something to initialise
	Clock    float64  `json:"clock_ms"` // median, in package initialisation
	Slowest  string   `json:"slowest"`  // the slowest package of one run
	SlowTime float64  `json:"slowest_ms"`
}

const module = "github.com/sbxhost/sbxhost"

// heavy are prefixes of packages that would cost an engine's start-up.
var heavy = []string{
	"github.com/hashicorp/hcl", "github.com/zclconf/go-cty", "github.com/hashicorp/cli", "go.opentelemetry.io/otel",
	module + "/host", module + "/config",
}

func inspectBinaries(ctx context.Context, bin string, rounds int) ([]binaryRow, error) {
	rows := []binaryRow{{Name: "sbxhost"}, {Name: "sbxhost-engine-bwrap"}, {Name: "sbxhost-init"}}
	packages := []string{module + "/cmd/sbxhost", module + "/plugins/bwrap/sbxhost-engine-bwrap", module + "/shared/sandboxinit/sbxhost-init"}
	// What makes each do nothing; its exit status then is its own affair.
	idle := []string{"version", "-version", "-version"}
	clock := make([][]float64, len(rows))
	for range max(1, min(rounds/10, 15)) {
		for i := range rows {
			t, err := traceInit(ctx, filepath.Join(bin, rows[i].Name), idle[i])
			if err != nil {
				return nil, err
			}
			clock[i] = append(clock[i], t.clock)
			rows[i].Inits, rows[i].Slowest, rows[i].SlowTime = t.packages, t.slowest.name, t.slowest.clock
		}
	}
	for i := range rows {
		info, err := os.Stat(filepath.Join(bin, rows[i].Name))
		if err != nil {
			return nil, err
		}
		linked, err := linkedPackages(ctx, packages[i])
		if err != nil {
			return nil, err
		}
		rows[i].Bytes, rows[i].Packages, rows[i].Heavy = info.Size(), len(linked), heavyOf(linked)
		rows[i].Clock = median(clock[i])
	}
	return rows, nil
}

func traceInit(ctx context.Context, program, idle string) (initTrace, error) {
	cmd := exec.CommandContext(ctx, program, idle)
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return initTrace{}, err
	}
	t := parseInitTrace(stderr.String())
	if t.packages == 0 {
		return t, fmt.Errorf("%s printed no init trace: %v", program, err)
	}
	return t, nil
}

// linkedPackages asks the go command, of the source, what is linked.
func linkedPackages(ctx context.Context, pkg string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list -deps %s (bench runs inside the module): %w: %s", pkg, err, stderr.String())
	}
	return strings.Fields(string(out)), nil
}

func heavyOf(packages []string) (found []string) {
	for _, p := range packages {
		for _, prefix := range heavy {
			if p == prefix || strings.HasPrefix(p, prefix+"/") {
				found = append(found, p)
			}
		}
	}
	return found
}
