package shared

import (
	"os"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/protobuf/proto"
)

// Rehearse does what the first messages between a host and an engine would have
// to wait for: protobuf makes tables for each type of message when it meets the
// first, and package os finds out what the kernel has. Both sides have time for it
// while they wait for each other to start, and none later. It changes nothing but
// the time that the rest takes.
func Rehearse() {
	spec := specToPB(&Spec{Table: []Entry{{}}, User: &User{}})
	command := commandToPB(&Command{})
	for _, m := range [...]proto.Message{
		&pb.InfoRequest{}, infoToPB(&Info{}), &pb.OpenRequest{Spec: spec}, &pb.OpenReply{}, &pb.RunRequest{Command: command},
		&pb.RunReply{Kind: &pb.RunReply_Started{Started: &pb.Started{}}},
		&pb.RunReply{Kind: &pb.RunReply_Exited{Exited: resultToPB(&Result{})}},
	} {
		if wire, err := proto.Marshal(m); err == nil {
			_ = proto.Unmarshal(wire, m)
		}
	}
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Release()
	}
}
