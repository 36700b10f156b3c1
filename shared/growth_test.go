package shared_test

import (
	"context"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// An implementation of today compiles for as long as the protocol has its version: a
// method more would be an interface of its own, as EarlyStarter is.
type (
	minimalEngine  struct{}
	minimalSandbox struct{}
	minimalProcess struct{}
)

var (
	_ shared.Engine  = minimalEngine{}
	_ shared.Sandbox = minimalSandbox{}
	_ shared.Process = minimalProcess{}
)

func (minimalEngine) Info(context.Context) (i shared.Info, err error)                  { return }
func (minimalEngine) Probe(context.Context) (p shared.Probe, err error)                { return }
func (minimalEngine) Open(context.Context, shared.Spec) (s shared.Sandbox, err error)  { return }
func (minimalSandbox) Plan(context.Context, shared.Command) (p shared.Plan, err error) { return }
func (minimalSandbox) Close(context.Context) (err error)                               { return }
func (minimalSandbox) Start(context.Context, shared.Command, shared.Stdio) (p shared.Process, err error) {
	return
}
func (minimalProcess) Wait(context.Context) (r shared.Result, err error)  { return }
func (minimalProcess) Signal(context.Context, syscall.Signal) (err error) { return }
func (minimalProcess) Events() (events <-chan shared.Event)               { return }
