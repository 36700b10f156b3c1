package dial

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/sbxhost/sbxhost/shared"
	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sentinel gives the error that a kind stands for; nil for none, or one that this version
// does not know.
func sentinel(kind pb.Error_Kind) error {
	switch kind {
	case pb.Error_KIND_UNSUPPORTED:
		return shared.ErrUnsupported
	case pb.Error_KIND_UNAVAILABLE:
		return shared.ErrUnavailable
	case pb.Error_KIND_UNUSABLE:
		return shared.ErrUnusable
	case pb.Error_KIND_INVALID_SPEC:
		return shared.ErrInvalidSpec
	case pb.Error_KIND_DENIED:
		return shared.ErrDenied
	case pb.Error_KIND_NOT_FOUND:
		return shared.ErrNotFound
	case pb.Error_KIND_NOT_EXECUTABLE:
		return shared.ErrNotExecutable
	case pb.Error_KIND_CLOSED:
		return shared.ErrClosed
	case pb.Error_KIND_BROKEN:
		return shared.ErrBroken
	case pb.Error_KIND_PROCESS_DONE:
		return os.ErrProcessDone
	case pb.Error_KIND_ENGINE_LOST:
		return shared.ErrEngineLost
	}
	return nil
}

// tracedError is an error whose whole text says more than the error inside.
type tracedError struct {
	text  string
	cause error
}

func (e *tracedError) Error() string { return e.text }
func (e *tracedError) Unwrap() error { return e.cause }

func withText(cause error, text string) error {
	if text == "" || text == cause.Error() {
		return cause
	}
	return &tracedError{text, cause}
}

// errorFromPB gives the error that an engine has told of.
func errorFromPB(detail *pb.Error) error {
	kind := sentinel(detail.GetKind())
	if detail.GetAttribute() == "" && detail.GetMessage() == "" && detail.GetHint() == "" {
		if kind == nil {
			return errors.New(detail.GetText())
		}
		return withText(kind, detail.GetText())
	}
	return withText(&shared.Error{
		Kind:      kind,
		Attribute: detail.GetAttribute(),
		Message:   detail.GetMessage(),
		Hint:      detail.GetHint(),
	}, detail.GetText())
}

// clientClosing is how gRPC words the end of a connection by this side, which
// shares its code with a context that was cancelled.
const clientClosing = "grpc: the client connection is closing"

// errorFromStatus gives the error of a call, and says of the connection's own
// failures what they mean.
func errorFromStatus(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return &shared.Error{Kind: shared.ErrEngineLost, Message: "the engine ended the call early"}
	}
	st, ok := status.FromError(err)
	if !ok {
		return err
	}
	for _, d := range st.Details() {
		if detail, ok := d.(*pb.Error); ok {
			return errorFromPB(detail)
		}
	}
	switch st.Code() {
	case codes.Canceled:
		if st.Message() == clientClosing {
			return &shared.Error{Kind: shared.ErrEngineLost, Message: shared.ErrEngineLost.Error() + ": the host has closed the connection"}
		}
		return withText(context.Canceled, st.Message())
	case codes.DeadlineExceeded:
		return withText(context.DeadlineExceeded, st.Message())
	case codes.Unavailable:
		return &shared.Error{Kind: shared.ErrEngineLost, Message: shared.ErrEngineLost.Error() + ": " + st.Message()}
	case codes.Unimplemented:
		return &shared.Error{Kind: shared.ErrUnsupported, Message: st.Message()}
	}
	return errors.New(st.Message())
}
