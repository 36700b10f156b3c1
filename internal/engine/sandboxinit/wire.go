//go:build unix

package sandboxinit

import (
	"errors"
	"os"

	"github.com/sbxhost/sbxhost/internal/engine/sandboxinit/confine"
	"github.com/sbxhost/sbxhost/internal/engine/traced"
	"github.com/sbxhost/sbxhost/internal/frame"
)

const wireVersion = 16

const (
	kindSandbox      byte = 'M' // engine -> init, before the command, if the init makes its sandbox: holder.Sandbox
	kindConfine      byte = 'L' // engine -> init, before kindComplete, if that comes long before the command: Confinement
	kindComplete     byte = 'P' // engine -> init, after these; with stdin, stdout, stderr, and the init's end of a Sockets, if there is one
	kindCommand      byte = 'C' // engine -> init, first and once: Command
	kindReside       byte = 'N' // engine -> init, instead of a command: be pid 1 of a session's processes
	kindSignal       byte = 'S' // engine -> init: signal
	kindKill         byte = 'K' // engine -> init
	kindKillAllAtEnd byte = 'D' // engine -> init: leave no process, whatever ends the command
	kindStarted      byte = 'R' // init -> engine, first: started
	kindRefused      byte = 'E' // init -> engine, instead of kindStarted and kindEnded: ExecError
	kindMountFailed  byte = 'U' // init -> engine, instead of kindStarted and kindEnded, if the sandbox could not be made: holder.MountError
	kindSignalled    byte = 'G' // init -> engine, after a kindSignal that the command got
	kindEnded        byte = 'X' // init -> engine, last: ended
)

const (
	maxCommand = 16 << 20 // a command's payload
	// maxReport bounds what the engine reads into memory from an init that the command has taken
	// over, in bytes. A path is at most 4 KiB.
	maxReport = 16 << 10
	// maxRequest is for what follows the command.
	maxRequest = 64
	maxSignal  = 64
)

// ErrProtocol is wrapped by errors about messages that no init sends.
var ErrProtocol = frame.ErrMalformed

func encodeCommand(c *Command) ([]byte, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	request := frame.Encode(kindCommand, c)
	if len(request) > maxCommand {
		return nil, errors.New("command: args, env and script are over 16 MiB")
	}
	if max(len(c.Args), len(c.Env), len(c.Mounts)) > frame.MaxItems {
		return nil, errors.New("command: more than 1000000 args or variables")
	}
	return request, nil
}

func (c *Command) Fields(w *frame.Codec) {
	version := wireVersion
	if frame.Byte(w, &version); version != wireVersion {
		path, _ := os.Executable()
		w.Fail("the init " + path + " and its engine are of different versions: install both again")
	}
	w.Texts(&c.Args)
	w.Text(&c.Script)
	w.Texts(&c.Env)
	w.Text(&c.Dir)
	w.Flag(&c.TTY)
	w.Flag(&c.SharedLimits)
	w.Flag(&c.Apart)
	frame.List(w, &c.Rlimits, 20, func(l *Rlimit) {
		frame.Int(w, &l.Resource)
		w.Long(&l.Soft)
		w.Long(&l.Hard)
	})
	c.Confinement.Fields(w)
	w.Flag(&c.Confined)
	w.Bytes(&c.Trace)
	w.Text(&c.Fresh)
	frame.List(w, &c.Mounts, 20, func(m *Mount) {
		w.Text(&m.Path)
		w.Flag(&m.Linked)
		w.Long(&m.Dev)
		w.Long(&m.Ino)
	})
}

func (c *Confinement) Fields(w *frame.Codec) {
	w.Flag(&c.Scope)
	w.Flag(&c.Rooted)
	w.Texts(&c.Writable)
	w.Flag(&c.Locked)
	w.Bytes(&c.Filter)
	domain := c.Landlock != nil
	if w.Flag(&domain); domain {
		if c.Landlock == nil {
			c.Landlock = &confine.Landlock{}
		}
		w.Long(&c.Landlock.Handled)
		w.Long(&c.Landlock.Scoped)
		frame.List(w, &c.Landlock.Rules, 30, func(r *confine.Rule) {
			w.Text(&r.Path)
			w.Long(&r.Access)
			w.Flag(&r.Optional)
			w.Flag(&r.Links)
			w.Long(&r.Dev)
			w.Long(&r.Ino)
		})
	}
}

type signalRequest struct{ number int }

func (s *signalRequest) Fields(c *frame.Codec) {
	if frame.Byte(c, &s.number); s.number < 1 || s.number > maxSignal {
		c.Fail("no such signal")
	}
}

// empty is the payload of a message that has none.
type empty struct{}

func (empty) Fields(*frame.Codec) {}

// startedMessage reports that the command runs, whether it is scoped and rooted, and its number inside.
type startedMessage struct {
	scoped, rooted bool
	pid            int
}

func (s *startedMessage) Fields(c *frame.Codec) {
	c.Flag(&s.scoped)
	c.Flag(&s.rooted)
	frame.Int(c, &s.pid)
}

// Fields implements [frame.Message].
func (e *ExecError) Fields(c *frame.Codec) {
	frame.Byte(c, &e.Op)
	c.Text(&e.Path)
	frame.Int(c, &e.Errno)
	// MAX_ERRNO. Zero would be an error that says "errno 0".
	if e.Op >= ops || e.Errno < 1 || e.Errno > 4095 {
		c.Fail("no such exec error")
	}
}

// encodeRefused cuts a name that is longer than any path, and so does not exist: its beginning is
// enough.
func encodeRefused(x *ExecError) []byte {
	short := *x
	short.Path = x.Path[:min(len(x.Path), maxReport/2)]
	return frame.Encode(kindRefused, &short)
}

// endedMessage reports how the command ended, and what it failed at if it was traced.
type endedMessage struct {
	status Status
	failed traced.Report
}

func (e *endedMessage) Fields(c *frame.Codec) {
	e.status.Fields(c)
	e.failed.Fields(c)
}

// Fields implements [frame.Message].
func (s *Status) Fields(c *frame.Codec) {
	code := s.Code
	if s.Signal != 0 {
		code = 0
	}
	frame.Byte(c, &code)
	frame.Byte(c, &s.Signal)
	c.Flag(&s.CoreDumped)
	c.Long(&s.NewFiles)
	c.Flag(&s.Alone)
	c.Long(&s.Ended)
	c.Long(&s.CPU)
	c.Long(&s.Memory)
	switch {
	case s.Signal > 127, s.Signal != 0 && code != 0, s.Signal == 0 && s.CoreDumped:
		c.Fail("no such wait status")
	case s.Signal != 0:
		code = -1
	}
	s.Code = code
}
