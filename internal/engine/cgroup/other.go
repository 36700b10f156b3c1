//go:build !linux

package cgroup

import (
	"os"
	"syscall"
	"time"
)

// Look finds nothing: only Linux has control groups.
func Look() Host { return Host{} }

// Sweep does nothing.
func (Host) Sweep() {}

// Group is never made here.
type Group struct{}

// New makes no group.
func (Decision) New() (*Group, error) { return nil, nil }

// Empty is true.
func (*Group) Empty() bool { return true }

// Directory is nil.
func (*Group) Directory() *os.File { return nil }

// Hierarchies are none.
func (*Group) Hierarchies() []string { return nil }

// Start calls start.
func (*Group) Start(_ *syscall.SysProcAttr, start func() error) error { return start() }

// Add moves nothing.
func (*Group) Add(int) error { return nil }

// Killed is zero.
func (*Group) Killed() uint64 { return 0 }

// Usage is zero.
func (*Group) Usage() (cpu time.Duration, memory uint64) { return 0, 0 }

// Remove removes nothing.
func (*Group) Remove() {}
