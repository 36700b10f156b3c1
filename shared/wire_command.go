package shared

import (
	"math"
	"time"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

func commandToPB(c *Command) *pb.Command {
	return &pb.Command{
		Args:      translate(c.Args, toBytes),
		Script:    []byte(c.Script),
		Env:       translate(c.Env, toBytes),
		Dir:       []byte(c.Dir),
		Tty:       c.TTY,
		TimeoutNs: int64(c.Timeout),
		GraceNs:   int64(c.Grace),
	}
}

func commandFromPB(in *pb.Command) (Command, error) {
	if in == nil {
		return Command{}, invalid("command", "is missing")
	}
	return Command{
		Args:    translate(in.GetArgs(), fromBytes),
		Script:  string(in.GetScript()),
		Env:     translate(in.GetEnv(), fromBytes),
		Dir:     string(in.GetDir()),
		TTY:     in.GetTty(),
		Timeout: time.Duration(in.GetTimeoutNs()),
		Grace:   time.Duration(in.GetGraceNs()),
	}, nil
}

func sizeFromPB(in *pb.ResizeRequest) (TerminalSize, error) {
	if in.GetRows() > math.MaxUint16 || in.GetCols() > math.MaxUint16 {
		return TerminalSize{}, invalid("size", "%d rows and %d columns are more than a terminal can have", in.GetRows(), in.GetCols())
	}
	return TerminalSize{Rows: uint16(in.GetRows()), Cols: uint16(in.GetCols())}, nil
}

func planToPB(p *Plan) *pb.PlanReply {
	return &pb.PlanReply{
		Argv: translate(p.Argv, toBytes),
		Mounts: translate(p.Mounts, func(m PlannedMount) *pb.PlannedMount {
			return &pb.PlannedMount{
				Op:          text(m.Op),
				Source:      []byte(m.Source),
				Destination: []byte(m.Destination),
				Why:         text(m.Why),
			}
		}),
		Documents: translate(p.Documents, func(d PlanDocument) *pb.PlanDocument {
			return &pb.PlanDocument{Name: text(d.Name), Text: []byte(d.Text)}
		}),
		Notes: texts(p.Notes),
	}
}

func planFromPB(in *pb.PlanReply) Plan {
	return Plan{
		Argv: translate(in.GetArgv(), fromBytes),
		Mounts: translate(in.GetMounts(), func(m *pb.PlannedMount) PlannedMount {
			return PlannedMount{
				Op:          m.GetOp(),
				Source:      string(m.GetSource()),
				Destination: string(m.GetDestination()),
				Why:         m.GetWhy(),
			}
		}),
		Documents: translate(in.GetDocuments(), func(d *pb.PlanDocument) PlanDocument {
			return PlanDocument{Name: d.GetName(), Text: string(d.GetText())}
		}),
		Notes: in.GetNotes(),
	}
}

func eventToPB(e *Event) *pb.Event {
	out := &pb.Event{Kind: text(string(e.Kind)), Message: text(e.Message), Details: textMap(e.Details)}
	if !e.Time.IsZero() {
		out.TimeUnixNs = e.Time.UnixNano()
	}
	return out
}

func eventFromPB(in *pb.Event) Event {
	e := Event{Kind: EventKind(in.GetKind()), Message: in.GetMessage()}
	if len(in.GetDetails()) > 0 {
		e.Details = in.GetDetails()
	}
	if ns := in.GetTimeUnixNs(); ns != 0 {
		e.Time = time.Unix(0, ns)
	}
	return e
}

func resultToPB(r *Result) *pb.Result {
	return &pb.Result{
		Code:       int32(r.Status.Code),
		Signal:     int32(r.Status.Signal),
		CoreDumped: r.Status.CoreDumped,
		TimedOut:   r.TimedOut,
		DurationNs: int64(r.Duration),
	}
}

func resultFromPB(in *pb.Result) Result {
	return Result{
		Status: ExitStatus{
			Code:       int(in.GetCode()),
			Signal:     Signal(in.GetSignal()),
			CoreDumped: in.GetCoreDumped(),
		},
		TimedOut: in.GetTimedOut(),
		Duration: time.Duration(in.GetDurationNs()),
	}
}
