package shared

import (
	"context"
	"syscall"

	"github.com/hashicorp/go-hclog"
)

// Server is for tests that have both ends of the wire in one process.
type Server = server

func NewServer(engine Engine) *Server { return newServer(engine, hclog.NewNullLogger()) }

func (s *Server) Receive(channel syscall.Conn) error { return s.inbox.receive(channel) }

func (s *Server) Shutdown(ctx context.Context) error { return s.shutdown(ctx) }

func (s *Server) Idle() bool {
	for range s.sandboxes.Range {
		return false
	}
	for range s.processes.Range {
		return false
	}
	return true
}

var ServerOptions = serverOptions
