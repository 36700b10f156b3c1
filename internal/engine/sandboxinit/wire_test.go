package sandboxinit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/engine/traced"
	"github.com/sbxhost/sbxhost/internal/frame"
)

func commands() map[string]Command {
	return map[string]Command{
		"least":    {Args: []string{"true"}},
		"empty":    {Args: []string{"", "", ""}, Env: []string{"", "="}},
		"newlines": {Args: []string{"a\nb", "\r\n"}, Env: []string{"A=\n"}, Dir: "/a\nb"},
		"invalid":  {Args: []string{"\xff\xfe", "\xc0\x80"}, Env: []string{"\xf0=\x80"}, Dir: "/\xff"},
		"repeated": {Args: []string{"x"}, Env: []string{"A=1", "A=2", "A=1"}},
		"script":   {Script: strings.Repeat("echo hello\n", 20000), Args: []string{"-x", "--"}},
		"all": {
			Args: []string{"sh", "-c", "exit 3"}, Env: []string{"PATH=/bin"}, Dir: "/",
			TTY: true, SharedLimits: true, Mounts: []Mount{{Path: "/a b"}, {"/c", true, 1, 1 << 63}},
			Rlimits: []Rlimit{{7, 0, 1}, {9, 1<<64 - 1, 1<<64 - 1}, {0, 5, 5}},
			Confinement: Confinement{Scope: true, Filter: []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f},
				Landlock: &confine.Landlock{Handled: 1 << 15, Scoped: 3, Rules: []confine.Rule{{Path: "/a b", Access: 5, Optional: true}, {Path: "/c", Access: 1, Links: true, Dev: 1 << 40, Ino: 1 << 63}}}},
		},
		"no rules": {Args: []string{"true"}, Confinement: Confinement{Landlock: &confine.Landlock{Handled: 1}}},
		"confined": {Args: []string{"true"}, Confined: true},
	}
}

func decodeMessage(t *testing.T, message []byte, want byte, limit int, m frame.Message) error {
	t.Helper()
	k, payload, err := frame.Read(bytes.NewReader(message), limit)
	if err != nil || k != want {
		t.Fatalf("Read: kind %q, error %v; want kind %q", k, err, want)
	}
	return frame.Decode(payload, m)
}

func TestCommandRoundTrip(t *testing.T) {
	for name, want := range commands() {
		t.Run(name, func(t *testing.T) {
			message, err := encodeCommand(&want)
			if err != nil {
				t.Fatal(err)
			}
			var got Command
			if err := decodeMessage(t, message, kindCommand, maxCommand, &got); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			payload := message[frame.HeaderSize:]
			if len(payload) > 4096 {
				return
			}
			for n := range payload {
				if err := frame.Decode(payload[:n], &Command{}); !errors.Is(err, ErrProtocol) {
					t.Errorf("first %d of %d bytes: error %v, want ErrProtocol", n, len(payload), err)
				}
			}
			if err := frame.Decode(append(payload[:len(payload):len(payload)], 0), &Command{}); !errors.Is(err, ErrProtocol) {
				t.Errorf("one byte more: error %v, want ErrProtocol", err)
			}
		})
	}
}

func TestCommandRefused(t *testing.T) {
	many := make([]string, frame.MaxItems+1)
	for name, test := range map[string]struct {
		cmd  Command
		want string
	}{
		"nothing": {Command{}, "both args and script are empty"},
		"big":     {Command{Script: strings.Repeat("x", maxCommand)}, "over 16 MiB"},
		"many":    {Command{Args: many}, "more than 1000000"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := encodeCommand(&test.cmd)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestReportsRoundTrip(t *testing.T) {
	reports := []frame.Message{&ExecError{OpExec, "/\xff\n", syscall.EACCES}, &startedMessage{}, &startedMessage{scoped: true}, &endedMessage{status: Status{CPU: 1 << 40, Memory: 2}, failed: traced.Report{Calls: []traced.Call{{Target: "/x", Errno: syscall.ENOENT}}}}}
	for code := range 256 {
		reports = append(reports, &Status{Code: code, NewFiles: uint64(code) << 33, Ended: uint64(code) << 32})
	}
	for sig := 1; sig < 128; sig++ {
		reports = append(reports, &Status{Code: -1, Signal: sig, CoreDumped: sig%2 == 0})
	}
	for n := 1; n <= maxSignal; n++ {
		reports = append(reports, &signalRequest{n})
	}
	for _, want := range reports {
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(frame.Message)
		if err := frame.Decode(frame.Payload(want), got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v came back as %+v, %v", want, got, err)
		}
	}
	long := &ExecError{OpExec, strings.Repeat("x", 1<<20), syscall.ENAMETOOLONG}
	if err := decodeMessage(t, encodeRefused(long), kindRefused, maxReport, &ExecError{}); err != nil {
		t.Errorf("long path: %v", err)
	}
}

func TestReportsRefused(t *testing.T) {
	refuses := func(m frame.Message, payloads ...[]byte) {
		for _, p := range payloads {
			if err := frame.Decode(p, m); !errors.Is(err, ErrProtocol) {
				t.Errorf("%T of %v: error %v, want ErrProtocol", m, p, err)
			}
		}
	}
	refuses(&Status{}, nil, []byte{0}, []byte{0, 0}, []byte{1, 1, 0}, []byte{0, 128, 0}, []byte{0, 0, 1}, []byte{0, 0, 2}, []byte{0, 0, 0, 0},
		append([]byte{1, 1, 0}, make([]byte, 33)...), append([]byte{0, 128, 0}, make([]byte, 33)...), append([]byte{0, 0, 1}, make([]byte, 33)...))
	if err := frame.Decode(make([]byte, 36), &Status{}); err != nil {
		t.Errorf("a status of that length: %v", err)
	}
	refuses(&endedMessage{}, nil, make([]byte, 39), make([]byte, 41))
	refuses(&signalRequest{}, nil, []byte{0}, []byte{65}, []byte{255}, []byte{1, 1})
	refuses(&startedMessage{}, nil, []byte{2}, []byte{0, 0})
	for _, x := range []*ExecError{{ops, "", 1}, {OpExec, "", 0}, {OpExec, "", 4096}} {
		refuses(&ExecError{}, frame.Payload(x))
	}
	if err := frame.Expect(bytes.NewReader(frame.Encode(kindStarted, &startedMessage{})), kindEnded, maxReport, &endedMessage{}); !errors.Is(err, ErrProtocol) {
		t.Errorf("out of turn: %v", err)
	}
	// A count must not ask for memory that the payload does not pay for.
	payload := binary.BigEndian.AppendUint32([]byte{wireVersion}, frame.MaxItems)
	if n := testing.AllocsPerRun(1, func() { frame.Decode(payload, &Command{}) }); n > 20 {
		t.Errorf("a bare count costs %v allocations", n)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range commands() {
		if message, err := encodeCommand(&c); err == nil && len(message) < 4096 {
			f.Add(message[frame.HeaderSize:])
		}
	}
	f.Add([]byte{wireVersion, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, payload []byte) {
		c := &Command{}
		if frame.Decode(payload, c) != nil || c.validate() != nil {
			return
		}
		message, err := encodeCommand(c)
		if err != nil {
			t.Fatalf("decoded what cannot be encoded: %v", err)
		}
		if !bytes.Equal(message[frame.HeaderSize:], payload) {
			t.Errorf("two encodings of one command: %q and %q", payload, message[frame.HeaderSize:])
		}
	})
}

func FuzzReports(f *testing.F) {
	f.Add(frame.Encode(kindEnded, &endedMessage{status: Status{Code: 7}}))
	f.Add(frame.Encode(kindEnded, &endedMessage{status: Status{Code: -1, Signal: 11, CoreDumped: true}}))
	f.Add(frame.Encode(kindStarted, &startedMessage{scoped: true}))
	f.Add(frame.Encode(kindSignal, &signalRequest{15}))
	f.Add(encodeRefused(&ExecError{OpLookup, "x", syscall.ENOENT}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'E'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		k, payload, err := frame.Read(bytes.NewReader(stream), maxReport)
		if err != nil {
			return
		}
		m := map[byte]frame.Message{kindEnded: &endedMessage{}, kindStarted: &startedMessage{}, kindSignal: &signalRequest{}, kindRefused: &ExecError{}}[k]
		if m == nil || frame.Decode(payload, m) != nil {
			return
		}
		if x, ok := m.(*ExecError); ok {
			_ = x.Error()
		}
		if again := frame.Encode(k, m); !bytes.Equal(again, stream[:len(again)]) {
			t.Errorf("two encodings of one report: %q and %q", stream[:len(again)], again)
		}
	})
}

func TestExecErrorText(t *testing.T) {
	for _, test := range []struct {
		err               ExecError
		text              string
		notFound, notExec bool
	}{
		{ExecError{OpLookup, "nope", syscall.ENOENT}, `lookup "nope": not found in PATH`, true, false},
		{ExecError{OpExec, "/x", syscall.ENOENT}, `exec "/x": no such file or directory`, true, false},
		{ExecError{OpExec, "/x/y", syscall.ENOTDIR}, `exec "/x/y": not a directory`, true, false},
		{ExecError{OpExec, "/x", syscall.EACCES}, `exec "/x": permission denied`, false, true},
		{ExecError{OpExec, "/x", syscall.ENOEXEC}, `exec "/x": exec format error`, false, true},
		{ExecError{OpInterpreter, "/\x1b", syscall.ENOENT}, `interpreter "/\x1b": the file exists, but its interpreter or loader does not`, true, false},
		{ExecError{OpMounts, "/x", syscall.ESTALE}, `mounts "/x": the mount that should be there is missing`, false, false},
		{ExecError{OpChdir, "/x", syscall.ENOENT}, `chdir "/x": no such file or directory`, false, false},
		{ExecError{OpFork, "", syscall.EAGAIN}, `fork: resource temporarily unavailable`, false, false},
	} {
		if got := test.err.Error(); got != test.text {
			t.Errorf("got %s, want %s", got, test.text)
		}
		if got := test.err.NotFound(); got != test.notFound {
			t.Errorf("%s: NotFound is %v", test.text, got)
		}
		if got := test.err.NotExecutable(); got != test.notExec {
			t.Errorf("%s: NotExecutable is %v", test.text, got)
		}
		if !errors.Is(&test.err, test.err.Errno) {
			t.Errorf("%s: does not wrap its errno", test.text)
		}
	}
}
