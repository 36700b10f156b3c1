//go:build unix

package shared

import (
	"fmt"
	"time"

	"github.com/sbxhost/sbxhost/internal/wire"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// Translations to messages are total. Translations from messages refuse unknown values: an unknown
// access, taken for a known one, could be writable.

func specFromPB(in *pb.Spec) (Spec, error) {
	if in == nil {
		return Spec{}, invalid("spec", "is missing")
	}
	s := Spec{
		Sandbox:    in.GetSandbox(),
		Unconfined: in.GetUnconfined(),
		BestEffort: in.GetBestEffort(),
		Home:       string(in.GetHome()),
		Limits: Limits{
			Memory:     in.GetLimits().GetMemoryBytes(),
			CPUs:       in.GetLimits().GetCpus(),
			PIDs:       in.GetLimits().GetPids(),
			OpenFiles:  in.GetLimits().GetOpenFiles(),
			TempSize:   in.GetLimits().GetTempBytes(),
			BestEffort: in.GetLimits().GetBestEffort(),
		},
		Session: Session{ID: in.GetSession().GetId(), Dir: string(in.GetSession().GetDir()), Named: in.GetSession().GetNamed(), Processes: in.GetSession().GetProcesses()},
		Devices: wire.List(in.GetDevices(), wire.FromBytes),
		Options: in.GetOptions(),
		Prepare: in.GetPrepare(),
	}
	var err error
	if s.Filesystem, err = known("filesystem", Filesystem(in.GetFilesystem()), FilesystemHost); err != nil {
		return Spec{}, err
	}
	if s.Network.Mode, err = known("network", NetworkMode(in.GetNetwork().GetMode()), NetworkNames); err != nil {
		return Spec{}, err
	}
	s.Network.Names, s.Network.Publish = in.GetNetwork().GetNames(), in.GetNetwork().GetPublish()
	for _, port := range in.GetNetwork().GetHostPorts() {
		if port == 0 || port > 65535 {
			return Spec{}, invalid("host_ports", "%d is not a port", port)
		}
		s.Network.HostPorts = append(s.Network.HostPorts, uint16(port))
	}
	s.Network.Inject.Certificate = Secret(in.GetNetwork().GetInject().GetCertificate())
	for _, c := range in.GetNetwork().GetInject().GetCredentials() {
		s.Network.Inject.Credentials = append(s.Network.Inject.Credentials,
			Credential{Hosts: c.GetHosts(), Header: c.GetHeader(), Placeholder: c.GetPlaceholder(), Value: Secret(c.GetValue())})
	}
	if n := len(in.GetTable()); n > 0 {
		s.Table = make([]Entry, n)
	}
	for i, e := range in.GetTable() {
		field := fmt.Sprintf("table[%d]", i)
		access, err := known(field, Access(e.GetAccess()), Private)
		if err != nil {
			return Spec{}, err
		}
		missing, err := known(field, Missing(e.GetMissing()), MissingHold)
		if err != nil {
			return Spec{}, err
		}
		s.Table[i] = Entry{
			Path:       string(e.GetPath()),
			Source:     string(e.GetSource()),
			Access:     access,
			Missing:    missing,
			Degradable: e.GetDegradable(),
			Why:        e.GetWhy(),
		}
	}
	if u := in.GetUser(); u != nil {
		s.User = &User{UID: u.GetUid(), GID: u.GetGid(), Groups: u.GetGroups()}
	}
	return s, nil
}

// known refuses enum values beyond the last one of this package.
func known[E ~int32](attribute string, v, last E) (E, error) {
	if v < 0 || v > last {
		return 0, invalid(attribute, "has the value %d, which this engine does not know", int32(v))
	}
	return v, nil
}

func commandFromPB(in *pb.Command) (Command, error) {
	if in == nil {
		return Command{}, invalid("command", "is missing")
	}
	return Command{
		Args:    wire.List(in.GetArgs(), wire.FromBytes),
		Script:  string(in.GetScript()),
		Env:     wire.List(in.GetEnv(), wire.FromBytes),
		Dir:     string(in.GetDir()),
		TTY:     in.GetTty(),
		Trace:   in.GetTrace(),
		Timeout: time.Duration(in.GetTimeoutNs()),
		Grace:   time.Duration(in.GetGraceNs()),
	}, nil
}

func infoToPB(i *Info) *pb.InfoReply {
	return &pb.InfoReply{
		Name:     wire.Text(i.Name),
		Version:  wire.Text(i.Version),
		Doc:      wire.Text(i.Doc),
		Features: wire.List(i.Features, func(f Feature) string { return wire.Text(string(f)) }),
		Options: &pb.OptionSchema{
			Attributes: attributesToPB(i.Options.Attributes),
			Blocks: wire.List(i.Options.Blocks, func(b OptionBlock) *pb.OptionBlock {
				return &pb.OptionBlock{Name: wire.Text(b.Name), Doc: wire.Text(b.Doc), Attributes: attributesToPB(b.Attributes)}
			}),
		},
	}
}

func attributesToPB(in []OptionAttribute) []*pb.OptionAttribute {
	return wire.List(in, func(a OptionAttribute) *pb.OptionAttribute {
		return &pb.OptionAttribute{
			Name:     wire.Text(a.Name),
			Type:     wire.Text(string(a.Type)),
			Doc:      wire.Text(a.Doc),
			Required: a.Required,
			Default:  a.Default,
		}
	})
}

func probeToPB(p *Probe) *pb.ProbeReply {
	return &pb.ProbeReply{
		Ready:    p.Ready,
		Reason:   wire.Text(p.Reason),
		Fix:      wire.Text(p.Fix),
		Degraded: wire.List(p.Degraded, wire.Text),
		Facts:    wire.TextMap(p.Facts),
		Unusable: p.Unusable,
	}
}

func planToPB(p *Plan) *pb.PlanReply {
	return &pb.PlanReply{
		Argv: wire.List(p.Argv, wire.ToBytes),
		Mounts: wire.List(p.Mounts, func(m PlannedMount) *pb.PlannedMount {
			return &pb.PlannedMount{
				Op:          wire.Text(m.Op),
				Source:      []byte(m.Source),
				Destination: []byte(m.Destination),
				Why:         wire.Text(m.Why),
			}
		}),
		Documents: wire.List(p.Documents, func(d PlanDocument) *pb.PlanDocument {
			return &pb.PlanDocument{Name: wire.Text(d.Name), Text: []byte(d.Text)}
		}),
		Notes: wire.List(p.Notes, wire.Text),
	}
}

func eventToPB(e *Event) *pb.Event {
	out := &pb.Event{Kind: wire.Text(string(e.Kind)), Message: wire.Text(e.Message), Details: wire.TextMap(e.Details)}
	if !e.Time.IsZero() {
		out.TimeUnixNs = e.Time.UnixNano()
	}
	return out
}

func resultToPB(r *Result) *pb.Result {
	return &pb.Result{
		Code:       int32(r.Status.Code),
		Signal:     int32(r.Status.Signal),
		CoreDumped: r.Status.CoreDumped,
		TimedOut:   r.TimedOut,
		DurationNs: int64(r.Duration),
		Usage:      usageToPB(r.Usage),
	}
}

func usageToPB(u Usage) *pb.Usage {
	if u == (Usage{}) {
		return nil
	}
	return &pb.Usage{CpuNs: int64(u.CPU), MemoryBytes: u.Memory, MemoryTogether: u.Together}
}
