//go:build unix

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

// sentinels are the errors of kinds. Other kinds are unknown to this version, or none.
var sentinels = map[pb.Error_Kind]error{
	pb.Error_KIND_UNSUPPORTED:    shared.ErrUnsupported,
	pb.Error_KIND_UNAVAILABLE:    shared.ErrUnavailable,
	pb.Error_KIND_UNUSABLE:       shared.ErrUnusable,
	pb.Error_KIND_INVALID_SPEC:   shared.ErrInvalidSpec,
	pb.Error_KIND_DENIED:         shared.ErrDenied,
	pb.Error_KIND_NOT_FOUND:      shared.ErrNotFound,
	pb.Error_KIND_NOT_EXECUTABLE: shared.ErrNotExecutable,
	pb.Error_KIND_CLOSED:         shared.ErrClosed,
	pb.Error_KIND_BROKEN:         shared.ErrBroken,
	pb.Error_KIND_PROCESS_DONE:   os.ErrProcessDone,
	pb.Error_KIND_ENGINE_LOST:    shared.ErrEngineLost,
}

// tracedError is an error whose text says more than its cause.
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

// errorFromPB returns the error that an engine sent.
func errorFromPB(detail *pb.Error) error {
	kind := sentinels[detail.GetKind()]
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

// clientClosing is gRPC's text for the end of a connection by this side, which has the same code as
// a cancelled context.
const clientClosing = "grpc: the client connection is closing"

// errorFromStatus returns the error of a call, and explains the connection's own failures.
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
