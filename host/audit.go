//go:build unix

package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sbxhost/sbxhost/internal/audit"
	"github.com/sbxhost/sbxhost/internal/sandbox"
	"github.com/sbxhost/sbxhost/shared"
)

// record has the fields that all lines share.
func (h *Host) record(event audit.Event, id, sandbox, engine string) audit.Record {
	return audit.Record{Event: event, Command: id, PID: os.Getpid(), UID: h.caller.UID, Sandbox: sandbox, Engine: engine, Workspace: h.Root()}
}

// audits reports whether there is a log or an Options.Record.
func (h *Host) audits() bool { return h.audit != nil || h.options.Record != nil }

// errNotRecorded is wrapped by an error of Options.Record.
var errNotRecorded = errors.New("it was not recorded")

func (h *Host) appendRecord(r audit.Record) error {
	err := h.audit.Append(r)
	if h.options.Record != nil {
		r.Time = time.Now()
		if refused := h.options.Record(r.Line()); refused != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", errNotRecorded, refused))
		}
	}
	return err
}

// logLateConnections logs connections that processes made after their commands' ends, and that no later
// command reported.
func (h *Host) logLateConnections(sb *sandbox.Handle, events []shared.Event) {
	r := h.record(audit.EventSession, rand.Text(), sb.Name, sb.Engine.Info.Name)
	for _, e := range events {
		if use, ok := DecodeEvent(&e).(audit.NetworkUse); ok {
			r.Network = audit.AddNetworkUse(r.Network, use)
		}
	}
	if len(r.Network) == 0 || !h.audits() {
		return
	}
	if err := h.appendRecord(r); err != nil {
		h.logger.Warn("connections of the session's processes are not logged", "error", err)
	}
}
