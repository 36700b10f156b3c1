//go:build unix

package shared

import (
	"errors"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
)

// specFromPB refuses values that this package does not know.
func specFromPB(in *pb.Spec) (Spec, error) {
	if in == nil {
		return Spec{}, invalid("spec", "is missing")
	}
	spec, err := pb.From[Spec](in)
	if unknown, ok := errors.AsType[*pb.UnknownValueError](err); ok {
		err = invalid(unknown.Attribute, "has the value %d, which this engine does not know", unknown.Value)
	}
	return spec, err
}

func commandFromPB(in *pb.Command) (Command, error) {
	if in == nil {
		return Command{}, invalid("command", "is missing")
	}
	return pb.From[Command](in)
}
