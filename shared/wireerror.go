//go:build unix

package shared

import (
	"context"
	"errors"
	"os"
	"strings"

	pb "github.com/sbxhost/sbxhost/shared/enginepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A wireKind pairs a sentinel with its name on the wire. The code is for generic tools only.
type wireKind struct {
	sentinel error
	kind     pb.Error_Kind
	code     codes.Code
}

func wireKinds() [11]wireKind {
	return [...]wireKind{
		{ErrUnsupported, pb.Error_KIND_UNSUPPORTED, codes.Unimplemented},
		{ErrUnusable, pb.Error_KIND_UNUSABLE, codes.FailedPrecondition}, // before the kind that it wraps
		{ErrUnavailable, pb.Error_KIND_UNAVAILABLE, codes.FailedPrecondition},
		{ErrInvalidSpec, pb.Error_KIND_INVALID_SPEC, codes.InvalidArgument},
		{ErrDenied, pb.Error_KIND_DENIED, codes.PermissionDenied},
		{ErrNotFound, pb.Error_KIND_NOT_FOUND, codes.NotFound},
		{ErrNotExecutable, pb.Error_KIND_NOT_EXECUTABLE, codes.FailedPrecondition},
		{ErrClosed, pb.Error_KIND_CLOSED, codes.FailedPrecondition},
		{ErrBroken, pb.Error_KIND_BROKEN, codes.Aborted},
		{os.ErrProcessDone, pb.Error_KIND_PROCESS_DONE, codes.FailedPrecondition},
		{ErrEngineLost, pb.Error_KIND_ENGINE_LOST, codes.Aborted},
	}
}

// maxErrorText bounds each text of an error. Errors travel in headers, and gRPC refuses a header
// that is too long completely, with the kind.
const maxErrorText = 32 << 10

func errorText(s string) string {
	if len(s) > maxErrorText {
		s = s[:maxErrorText] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

func kindOf(err error) wireKind {
	for _, k := range wireKinds() {
		if errors.Is(err, k.sentinel) {
			return k
		}
	}
	return wireKind{code: codes.Unknown}
}

// errorToPB keeps all of err. An error that is neither an [Error] nor a sentinel has only a text.
func errorToPB(err error) *pb.Error {
	kind := kindOf(err)
	detail := &pb.Error{Kind: kind.kind}
	inner := kind.sentinel
	if whole, ok := errors.AsType[*Error](err); ok {
		detail.Attribute = errorText(whole.Attribute)
		detail.Message = errorText(whole.Message)
		detail.Hint = errorText(whole.Hint)
		if kind.sentinel == nil && whole.Message == "" {
			// The kind does not travel, so the text must.
			detail.Message = "unknown error"
			if whole.Kind != nil {
				detail.Message = errorText(whole.Kind.Error())
			}
		}
		inner = whole
	}
	if all := err.Error(); inner == nil || all != inner.Error() {
		detail.Text = errorText(all)
	}
	return detail
}

// errorToStatus turns an engine's error into one that gRPC carries completely.
func errorToStatus(err error) error {
	if err == nil {
		return nil
	}
	kind := kindOf(err)
	if _, ok := errors.AsType[*Error](err); !ok && kind.sentinel == nil {
		switch {
		case errors.Is(err, context.Canceled):
			kind.code = codes.Canceled
		case errors.Is(err, context.DeadlineExceeded):
			kind.code = codes.DeadlineExceeded
		}
		return status.Error(kind.code, errorText(err.Error()))
	}
	st, detailErr := status.New(kind.code, errorText(err.Error())).WithDetails(errorToPB(err))
	if detailErr != nil {
		return status.Error(codes.Unknown, errorText(err.Error()))
	}
	return st.Err()
}
