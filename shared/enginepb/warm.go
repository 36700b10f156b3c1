package enginepb

import (
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Warm makes the tables of the messages for a sandbox and its command. Otherwise the first use of each
// makes them, which takes a millisecond in all. It is for a process that waits anyway.
var Warm = sync.OnceFunc(func() {
	seen := map[protoreflect.FullName]bool{}
	var warm func(protoreflect.MessageDescriptor)
	warm = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		if t, err := protoregistry.GlobalTypes.FindMessageByName(m.FullName()); err == nil {
			proto.Size(t.Zero().Interface())
		}
		for i := range m.Fields().Len() {
			if part := m.Fields().Get(i).Message(); part != nil {
				warm(part)
			}
		}
	}
	for _, m := range []proto.Message{(*OpenRequest)(nil), (*OpenReply)(nil), (*RunRequest)(nil), (*RunReply)(nil)} {
		warm(m.ProtoReflect().Descriptor())
	}
})
