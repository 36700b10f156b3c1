package shared

import (
	"fmt"
	"strings"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// The translations to messages are total. Those from messages refuse what
// this version does not know: an entry of an unknown access that was taken for a
// known one could be writable.

// text makes s fit for a protobuf string, which must be UTF-8: one bad byte in
// a file name would otherwise make the whole message, and with it the error it
// tells of, impossible to send.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func texts(in []string) []string {
	return translate(in, text)
}

func textMap(in map[string]string) map[string]string {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]string, len(in))
	for k, v := range in {
		out[text(k)] = text(v)
	}
	return out
}

// translate maps a list; an empty one becomes nil, as it does on the wire.
func translate[A, B any](in []A, f func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, v := range in {
		out[i] = f(v)
	}
	return out
}

func toBytes(s string) []byte   { return []byte(s) }
func fromBytes(b []byte) string { return string(b) }

// raw keeps JSON as it is; nothing becomes nil.
func raw(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func specToPB(s *Spec) *pb.Spec {
	out := &pb.Spec{
		Sandbox:    text(s.Sandbox),
		Unconfined: s.Unconfined,
		Filesystem: pb.Filesystem(s.Filesystem),
		Table: translate(s.Table, func(e Entry) *pb.Entry {
			return &pb.Entry{
				Path:       []byte(e.Path),
				Source:     []byte(e.Source),
				Access:     pb.Access(e.Access),
				Missing:    pb.Missing(e.Missing),
				Degradable: e.Degradable,
				Why:        text(e.Why),
			}
		}),
		Home:    []byte(s.Home),
		Network: &pb.Network{Mode: pb.NetworkMode(s.Network.Mode)},
		Limits: &pb.Limits{
			MemoryBytes: s.Limits.Memory,
			Cpus:        s.Limits.CPUs,
			Pids:        s.Limits.PIDs,
			OpenFiles:   s.Limits.OpenFiles,
			TempBytes:   s.Limits.TempSize,
			BestEffort:  s.Limits.BestEffort,
		},
		Session: &pb.Session{Id: text(s.Session.ID), Dir: []byte(s.Session.Dir), Named: s.Session.Named},
		Deny:    translate(s.Deny, toBytes),
		Protect: translate(s.Protect, toBytes),
		Options: raw(s.Options),
		Prepare: s.Prepare,
	}
	if u := s.User; u != nil {
		out.User = &pb.User{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	return out
}

func specFromPB(in *pb.Spec) (Spec, error) {
	if in == nil {
		return Spec{}, invalid("spec", "is missing")
	}
	s := Spec{
		Sandbox:    in.GetSandbox(),
		Unconfined: in.GetUnconfined(),
		Home:       string(in.GetHome()),
		Limits: Limits{
			Memory:     in.GetLimits().GetMemoryBytes(),
			CPUs:       in.GetLimits().GetCpus(),
			PIDs:       in.GetLimits().GetPids(),
			OpenFiles:  in.GetLimits().GetOpenFiles(),
			TempSize:   in.GetLimits().GetTempBytes(),
			BestEffort: in.GetLimits().GetBestEffort(),
		},
		Session: Session{ID: in.GetSession().GetId(), Dir: string(in.GetSession().GetDir()), Named: in.GetSession().GetNamed()},
		Deny:    translate(in.GetDeny(), fromBytes),
		Protect: translate(in.GetProtect(), fromBytes),
		Options: raw(in.GetOptions()),
		Prepare: in.GetPrepare(),
	}
	var err error
	if s.Filesystem, err = known("filesystem", Filesystem(in.GetFilesystem()), FilesystemHost); err != nil {
		return Spec{}, err
	}
	if s.Network.Mode, err = known("network", NetworkMode(in.GetNetwork().GetMode()), NetworkHost); err != nil {
		return Spec{}, err
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

// known refuses an enum's value beyond the last one that this package names.
func known[E ~int32](attribute string, v, last E) (E, error) {
	if v < 0 || v > last {
		return 0, invalid(attribute, "has the value %d, which this engine does not know", int32(v))
	}
	return v, nil
}
