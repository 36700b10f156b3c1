package shared

import (
	"errors"
	"testing"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/protobuf/proto"
)

func TestUnknownValues(t *testing.T) {
	for _, c := range []struct {
		attribute string
		spec      *pb.Spec
	}{
		{"spec", nil},
		{"filesystem", &pb.Spec{Filesystem: 2}},
		{"filesystem", &pb.Spec{Filesystem: -1}},
		{"network", &pb.Spec{Network: &pb.Network{Mode: 3}}},
		{"host_ports[1]", &pb.Spec{Network: &pb.Network{HostPorts: []uint32{1, 65536}}}},
		{"table[1]", &pb.Spec{Table: []*pb.Entry{{}, {Access: 5}}}},
		{"table[0]", &pb.Spec{Table: []*pb.Entry{{Missing: 3}}}},
		{"table[0]", &pb.Spec{Table: []*pb.Entry{{Access: -1}}}},
	} {
		_, err := specFromPB(c.spec)
		if whole, ok := errors.AsType[*Error](err); !ok || !errors.Is(err, ErrInvalidSpec) || whole.Attribute != c.attribute {
			t.Errorf("%v: %v", c.spec, err)
		}
	}
	if _, err := commandFromPB(nil); !errors.Is(err, ErrInvalidSpec) {
		t.Error(err)
	}
}

// What a host sends is never a reason to panic.
func FuzzRequests(f *testing.F) {
	for _, m := range []proto.Message{
		&pb.Spec{Sandbox: "s", Table: []*pb.Entry{nil, {Path: []byte("/a"), Access: 1}}, User: &pb.User{Groups: []uint32{1}}},
		&pb.Command{Args: [][]byte{[]byte("a")}, Env: [][]byte{[]byte("A=b")}, Dir: []byte("/")},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var spec pb.Spec
		var command pb.Command
		if proto.Unmarshal(b, &spec) == nil {
			if s, err := specFromPB(&spec); err == nil {
				s.Validate()
				s.Without(nil)
			}
		}
		if proto.Unmarshal(b, &command) == nil {
			if c, err := commandFromPB(&command); err == nil {
				c.Validate()
			}
		}
	})
}
