//go:build unix

package dial

import (
	"time"

	"github.com/sbxhost/sbxhost/internal/wire"
	"github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// The translations are total: readers ignore what this version does not know.

func specToPB(s *shared.Spec) *pb.Spec {
	out := &pb.Spec{
		Sandbox:    wire.Text(s.Sandbox),
		Unconfined: s.Unconfined,
		BestEffort: s.BestEffort,
		Filesystem: pb.Filesystem(s.Filesystem),
		Table: wire.List(s.Table, func(e shared.Entry) *pb.Entry {
			return &pb.Entry{
				Path:       []byte(e.Path),
				Source:     []byte(e.Source),
				Access:     pb.Access(e.Access),
				Missing:    pb.Missing(e.Missing),
				Degradable: e.Degradable,
				Why:        wire.Text(e.Why),
			}
		}),
		Home: []byte(s.Home),
		Network: &pb.Network{
			Mode:      pb.NetworkMode(s.Network.Mode),
			Names:     wire.List(s.Network.Names, wire.Text),
			HostPorts: wire.List(s.Network.HostPorts, func(port uint16) uint32 { return uint32(port) }),
			Publish:   wire.List(s.Network.Publish, wire.Text),
			Inject: &pb.Injection{
				Certificate: []byte(s.Network.Inject.Certificate),
				Credentials: wire.List(s.Network.Inject.Credentials, func(c shared.Credential) *pb.Credential {
					return &pb.Credential{Hosts: wire.List(c.Hosts, wire.Text), Header: wire.Text(c.Header), Placeholder: wire.Text(c.Placeholder), Value: []byte(c.Value)}
				}),
			},
		},
		Limits: &pb.Limits{
			MemoryBytes: s.Limits.Memory,
			Cpus:        s.Limits.CPUs,
			Pids:        s.Limits.PIDs,
			OpenFiles:   s.Limits.OpenFiles,
			TempBytes:   s.Limits.TempSize,
			BestEffort:  s.Limits.BestEffort,
		},
		Session: &pb.Session{Id: wire.Text(s.Session.ID), Dir: []byte(s.Session.Dir), Named: s.Session.Named, Processes: s.Session.Processes},
		Devices: wire.List(s.Devices, wire.ToBytes),
		Options: s.Options,
		Prepare: s.Prepare,
	}
	if u := s.User; u != nil {
		out.User = &pb.User{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	return out
}

func commandToPB(c *shared.Command) *pb.Command {
	return &pb.Command{
		Args:      wire.List(c.Args, wire.ToBytes),
		Script:    []byte(c.Script),
		Env:       wire.List(c.Env, wire.ToBytes),
		Dir:       []byte(c.Dir),
		Tty:       c.TTY,
		Trace:     c.Trace,
		TimeoutNs: int64(c.Timeout),
		GraceNs:   int64(c.Grace),
	}
}

func infoFromPB(in *pb.InfoReply) shared.Info {
	return shared.Info{
		Name:     in.GetName(),
		Version:  in.GetVersion(),
		Doc:      in.GetDoc(),
		Features: wire.List(in.GetFeatures(), func(f string) shared.Feature { return shared.Feature(f) }),
		Options: shared.OptionSchema{
			Attributes: attributesFromPB(in.GetOptions().GetAttributes()),
			Blocks: wire.List(in.GetOptions().GetBlocks(), func(b *pb.OptionBlock) shared.OptionBlock {
				return shared.OptionBlock{Name: b.GetName(), Doc: b.GetDoc(), Attributes: attributesFromPB(b.GetAttributes())}
			}),
		},
	}
}

func attributesFromPB(in []*pb.OptionAttribute) []shared.OptionAttribute {
	return wire.List(in, func(a *pb.OptionAttribute) shared.OptionAttribute {
		return shared.OptionAttribute{
			Name:     a.GetName(),
			Type:     shared.OptionType(a.GetType()),
			Doc:      a.GetDoc(),
			Required: a.GetRequired(),
			Default:  a.GetDefault(),
		}
	})
}

func probeFromPB(in *pb.ProbeReply) shared.Probe {
	p := shared.Probe{
		Ready:    in.GetReady(),
		Reason:   in.GetReason(),
		Fix:      in.GetFix(),
		Degraded: in.GetDegraded(),
		Unusable: in.GetUnusable(),
	}
	if len(in.GetFacts()) > 0 {
		p.Facts = in.GetFacts()
	}
	return p
}

func planFromPB(in *pb.PlanReply) shared.Plan {
	return shared.Plan{
		Argv: wire.List(in.GetArgv(), wire.FromBytes),
		Mounts: wire.List(in.GetMounts(), func(m *pb.PlannedMount) shared.PlannedMount {
			return shared.PlannedMount{
				Op:          m.GetOp(),
				Source:      string(m.GetSource()),
				Destination: string(m.GetDestination()),
				Why:         m.GetWhy(),
			}
		}),
		Documents: wire.List(in.GetDocuments(), func(d *pb.PlanDocument) shared.PlanDocument {
			return shared.PlanDocument{Name: d.GetName(), Text: string(d.GetText())}
		}),
		Notes: in.GetNotes(),
	}
}

func eventFromPB(in *pb.Event) shared.Event {
	e := shared.Event{Kind: shared.EventKind(in.GetKind()), Message: in.GetMessage()}
	if len(in.GetDetails()) > 0 {
		e.Details = in.GetDetails()
	}
	if ns := in.GetTimeUnixNs(); ns != 0 {
		e.Time = time.Unix(0, ns)
	}
	return e
}

func resultFromPB(in *pb.Result) shared.Result {
	return shared.Result{
		Status: shared.ExitStatus{
			Code:       int(in.GetCode()),
			Signal:     shared.Signal(in.GetSignal()),
			CoreDumped: in.GetCoreDumped(),
		},
		TimedOut: in.GetTimedOut(),
		Duration: time.Duration(in.GetDurationNs()),
		Usage: shared.Usage{
			CPU:      max(0, time.Duration(in.GetUsage().GetCpuNs())),
			Memory:   in.GetUsage().GetMemoryBytes(),
			Together: in.GetUsage().GetMemoryTogether(),
		},
	}
}
