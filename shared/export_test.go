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
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sandboxes) == 0 && len(s.processes) == 0
}

var ServerOptions = serverOptions
