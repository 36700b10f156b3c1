package enginepb

import "google.golang.org/protobuf/proto"

// Size is how many bytes an event takes in a message.
func (x *Event) Size() int { return proto.Size(x) }
