package dial

import (
	"errors"
	"io"
	"testing"

	"github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestLostConnection(t *testing.T) {
	for _, c := range []struct {
		err  error
		want error
	}{
		{status.Error(codes.Unavailable, "connection refused"), shared.ErrEngineLost},
		{io.EOF, shared.ErrEngineLost},
		{status.Error(codes.Canceled, clientClosing), shared.ErrEngineLost},
		{status.Error(codes.Unimplemented, "unknown method Plan"), shared.ErrUnsupported},
	} {
		got := errorFromStatus(c.err)
		if !errors.Is(got, c.want) {
			t.Errorf("%v became %v", c.err, got)
		}
	}
	if got := errorFromStatus(status.Error(codes.ResourceExhausted, "too long")); got.Error() != "too long" {
		t.Errorf("got %v", got)
	}
}

// What an engine sends is never a reason to panic.
func FuzzReplies(f *testing.F) {
	b, err := proto.Marshal(&pb.InfoReply{Name: "n", Options: &pb.OptionSchema{Attributes: []*pb.OptionAttribute{nil}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var m struct {
			info   pb.InfoReply
			probe  pb.ProbeReply
			plan   pb.PlanReply
			event  pb.Event
			result pb.Result
			err    pb.Error
		}
		if proto.Unmarshal(b, &m.info) == nil {
			pb.From[shared.Info](&m.info)
		}
		if proto.Unmarshal(b, &m.probe) == nil {
			pb.From[shared.Probe](&m.probe)
		}
		if proto.Unmarshal(b, &m.plan) == nil {
			pb.From[shared.Plan](&m.plan)
		}
		if proto.Unmarshal(b, &m.event) == nil {
			pb.From[shared.Event](&m.event)
		}
		if proto.Unmarshal(b, &m.result) == nil {
			pb.From[shared.Result](&m.result)
		}
		if proto.Unmarshal(b, &m.err) == nil && errorFromPB(&m.err) == nil {
			t.Errorf("%v became nil", &m.err)
		}
	})
}
