package sandboxinit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"syscall"
	"testing"
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
			TTY: true, Scope: true, Crowded: true, Mounts: []Mount{{Path: "/a b", Links: true}, {"/c", false, 1, 1 << 63}},
			Rlimits: []Rlimit{{7, 0, 1}, {9, 1<<64 - 1, 1<<64 - 1}, {0, 5, 5}},
			Filter:  []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f},
		},
	}
}

func decodeMessage(t *testing.T, message []byte, want kind, limit int) []byte {
	t.Helper()
	k, payload, err := readMessage(bytes.NewReader(message), limit)
	if err != nil || k != want {
		t.Fatalf("readMessage: kind %q, error %v; want kind %q", k, err, want)
	}
	return payload
}

func TestCommandRoundTrip(t *testing.T) {
	for name, want := range commands() {
		t.Run(name, func(t *testing.T) {
			message, err := encodeCommand(&want)
			if err != nil {
				t.Fatal(err)
			}
			payload := decodeMessage(t, message, kindCommand, maxCommand)
			got, err := decodeCommand(payload)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*got, want) {
				t.Errorf("got %+v, want %+v", *got, want)
			}
			if len(payload) > 4096 {
				return
			}
			for n := range payload {
				if _, err := decodeCommand(payload[:n]); !errors.Is(err, ErrProtocol) {
					t.Errorf("first %d of %d bytes: error %v, want ErrProtocol", n, len(payload), err)
				}
			}
			if _, err := decodeCommand(append(payload[:len(payload):len(payload)], 0)); !errors.Is(err, ErrProtocol) {
				t.Errorf("one byte more: error %v, want ErrProtocol", err)
			}
		})
	}
}

func TestCommandRefused(t *testing.T) {
	many := make([]string, maxStrings+1)
	for name, test := range map[string]struct {
		cmd  Command
		want string
	}{
		"nothing":      {Command{}, "both args and script are empty"},
		"NUL in arg":   {Command{Args: []string{"a", "b\x00"}}, "args[1] contains a NUL byte"},
		"NUL in env":   {Command{Args: []string{"a"}, Env: []string{"A=\x00"}}, "env[0] contains a NUL byte"},
		"NUL in dir":   {Command{Args: []string{"a"}, Dir: "/\x00"}, "dir contains a NUL byte"},
		"NUL in home":  {Command{Args: []string{"a"}, Fresh: "/\x00"}, "fresh contains a NUL byte"},
		"NUL in text":  {Command{Script: "a\x00"}, "script contains a NUL byte"},
		"big":          {Command{Script: strings.Repeat("x", maxCommand)}, "over 16 MiB"},
		"many":         {Command{Args: many}, "more than 1000000"},
		"rlimits":      {Command{Args: []string{"a"}, Rlimits: make([]Rlimit, 65)}, "more than 64 rlimits"},
		"resource":     {Command{Args: []string{"a"}, Rlimits: []Rlimit{{Resource: 64}}}, "rlimits[0]: no resource 64"},
		"resource neg": {Command{Args: []string{"a"}, Rlimits: []Rlimit{{Resource: -1}}}, "rlimits[0]: no resource -1"},
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
	for code := range 256 {
		want := Status{Code: code, Left: uint64(code) << 33}
		got, err := decodeStatus(decodeMessage(t, encodeStatus(want), kindStatus, maxReport))
		if err != nil || got != want {
			t.Errorf("code %d: got %+v, %v", code, got, err)
		}
	}
	for sig := 1; sig < 128; sig++ {
		want := Status{Code: -1, Signal: sig, CoreDumped: sig%2 == 0}
		got, err := decodeStatus(decodeMessage(t, encodeStatus(want), kindStatus, maxReport))
		if err != nil || got != want {
			t.Errorf("signal %d: got %+v, %v", sig, got, err)
		}
	}
	for n := 1; n <= maxSignal; n++ {
		if got, err := decodeSignal(decodeMessage(t, encodeSignal(n), kindSignal, maxRequest)); err != nil || got != n {
			t.Errorf("request for signal %d: got %d, %v", n, got, err)
		}
	}
	refused := &ExecError{OpExec, "/\xff\n", syscall.EACCES}
	got, err := decodeRefused(decodeMessage(t, encodeRefused(refused), kindRefused, maxReport))
	if err != nil || *got != *refused {
		t.Errorf("got %+v, %v", got, err)
	}
	long := &ExecError{OpExec, strings.Repeat("x", 1<<20), syscall.ENAMETOOLONG}
	if _, err := decodeRefused(decodeMessage(t, encodeRefused(long), kindRefused, maxReport)); err != nil {
		t.Errorf("long path: %v", err)
	}
	for _, scoped := range []bool{false, true} {
		if got, err := decodeStarted(decodeMessage(t, encodeStarted(scoped), kindStarted, maxReport)); err != nil || got != scoped {
			t.Errorf("scoped %v: got %v, %v", scoped, got, err)
		}
	}
}

func TestReportsRefused(t *testing.T) {
	refuses := func(name string, err error) {
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: error %v, want ErrProtocol", name, err)
		}
	}
	for _, p := range [][]byte{nil, {0}, {0, 0}, {1, 1, 0}, {0, 128, 0}, {0, 0, 1}, {0, 0, 2}, {0, 0, 0, 0}} {
		_, err := decodeStatus(p)
		refuses("status", err)
	}
	for _, p := range [][]byte{nil, {0}, {65}, {255}, {1, 1}} {
		_, err := decodeSignal(p)
		refuses("signal", err)
	}
	for _, p := range [][]byte{nil, {2}, {0, 0}} {
		_, err := decodeStarted(p)
		refuses("started", err)
	}
	for _, x := range []*ExecError{{"", "", 1}, {"\x1b[2J", "", 1}, {OpExec, "", 0}, {OpExec, "", 4096}} {
		_, err := decodeRefused(encodeRefused(x)[headerSize:])
		refuses("refused", err)
	}
}

func TestMessageLimit(t *testing.T) {
	huge := []byte{0xff, 0xff, 0xff, 0xff, 'X'}
	if _, _, err := readMessage(bytes.NewReader(huge), maxReport); !errors.Is(err, ErrProtocol) {
		t.Errorf("4 GiB: error %v, want ErrProtocol", err)
	}
	if _, _, err := readMessage(bytes.NewReader([]byte{0, 0, 0, 9, 'X', 1}), maxReport); err != io.ErrUnexpectedEOF {
		t.Errorf("cut payload: error %v, want ErrUnexpectedEOF", err)
	}
	if _, _, err := readMessage(bytes.NewReader([]byte{0, 0, 0, 9, 'X'}), maxReport); err != io.ErrUnexpectedEOF {
		t.Errorf("no payload: error %v, want ErrUnexpectedEOF", err)
	}
	if _, _, err := readMessage(bytes.NewReader(nil), maxReport); err != io.EOF {
		t.Errorf("nothing: error %v, want EOF", err)
	}
	// A count must not ask for memory that the payload does not pay for.
	payload := binary.BigEndian.AppendUint32([]byte{wireVersion}, maxStrings)
	if n := testing.AllocsPerRun(1, func() { decodeCommand(payload) }); n > 20 {
		t.Errorf("a bare count costs %v allocations", n)
	}
}

func FuzzDecodeCommand(f *testing.F) {
	for _, c := range commands() {
		if message, err := encodeCommand(&c); err == nil && len(message) < 4096 {
			f.Add(message[headerSize:])
		}
	}
	f.Add([]byte{wireVersion, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := decodeCommand(payload)
		if err != nil {
			return
		}
		message, err := encodeCommand(c)
		if err != nil {
			t.Fatalf("decoded what cannot be encoded: %v", err)
		}
		if !bytes.Equal(message[headerSize:], payload) {
			t.Errorf("two encodings of one command: %q and %q", payload, message[headerSize:])
		}
	})
}

func FuzzReports(f *testing.F) {
	f.Add(encodeStatus(Status{Code: 7}))
	f.Add(encodeStatus(Status{Code: -1, Signal: 11, CoreDumped: true}))
	f.Add(encodeStarted(true))
	f.Add(encodeSignal(15))
	f.Add(encodeRefused(&ExecError{OpLookup, "x", syscall.ENOENT}))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 'E'})
	f.Fuzz(func(t *testing.T, stream []byte) {
		k, payload, err := readMessage(bytes.NewReader(stream), maxReport)
		if err != nil {
			return
		}
		var again []byte
		switch k {
		case kindStatus:
			if s, err := decodeStatus(payload); err == nil {
				again = encodeStatus(s)
			}
		case kindStarted:
			if s, err := decodeStarted(payload); err == nil {
				again = encodeStarted(s)
			}
		case kindSignal:
			if n, err := decodeSignal(payload); err == nil {
				again = encodeSignal(n)
			}
		case kindRefused:
			if x, err := decodeRefused(payload); err == nil && len(x.Path) <= maxReport/2 {
				_ = x.Error()
				again = encodeRefused(x)
			}
		}
		if again != nil && !bytes.Equal(again, stream[:len(again)]) {
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
		{ExecError{OpInterpreter, "/\x1b", syscall.ENOENT}, `interpreter "/\x1b": the file is there, but the interpreter or loader that it names is not`, true, false},
		{ExecError{OpMounts, "/x", syscall.ESTALE}, `mounts "/x": what should be mounted there is not`, false, false},
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
