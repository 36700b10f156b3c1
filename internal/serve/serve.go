// Package serve is the protocol between sbx and `sbxhost serve`, so that a command finds a host
// that already runs.
//
// The server sends [KindWelcome], with a [Challenge], to a client whose identity it has looked at. A stopped server
// sends nothing, and the client does not wait for it. The client sends one [Hello] with its three
// standard descriptors, and after that the numbers of the signals that it gets. If the client must
// do the work itself, by `sbxhost exec`, the server sends [KindLeave]; nothing has run then.
// Otherwise it sends [KindBegin] before anything runs, [KindSuspend] each time that the client must
// stop itself (or its job, for a kept session), and one [KindExit]. The end of the connection means
// to the server what SIGKILL to the client would mean.
//
// The promise: a client is served only if it has the server's identity, see [Look].
// The limits: it needs Linux 6.5, whose kernel says which process has connected.
package serve

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// Kinds of messages.
const (
	KindWelcome = 'W'
	KindHello   = 'H'
	KindSignal  = 'K'
	KindLeave   = 'L'
	KindBegin   = 'B'
	KindSuspend = 'Z'
	KindExit    = 'X'
	KindStatus  = 'S' // instead of a Hello: the answer has a Reason, for people
	KindSession = 'N' // instead of a Hello, with a Session: the answer has what runs there, as JSON
)

// MaxMessage bounds a payload: as much as the kernel lets a program have as arguments
// and environment, with some to spare.
const MaxMessage = 8 << 20

// Patience is how long a server may take to look at a client: a stopped or overloaded server is
// slower than no server. SessionPatience is for requests that only this server can answer.
const (
	Patience        = time.Second
	SessionPatience = 10 * time.Second
)

// Files is how many descriptors come with a Hello.
const Files = 3

// Hello is a command line of exec and all that it depends on.
type Hello struct {
	Program string // StampOf the sbxhost that the client would run
	Secret  string // the answer to the server's Challenge
	Dir     string
	Args    []string // after "exec" or "shell"
	Environ []string
	// Keep says that the command runs in a kept session. Only with Keep, Shell says that the
	// command is the user's shell, and Typed that its standard input comes from the client's
	// terminal.
	Keep, Shell, Typed bool
}

// Fields implements [frame.Message].
func (h *Hello) Fields(c *frame.Codec) {
	c.Text(&h.Program)
	c.Text(&h.Secret)
	c.Text(&h.Dir)
	c.Texts(&h.Args)
	c.Texts(&h.Environ)
	c.Flag(&h.Keep)
	c.Flag(&h.Shell)
	c.Flag(&h.Typed)
}

// A Session asks for a session that the server holds, by its directory.
type Session struct {
	Dir string
	End bool // end what runs there before the answer
}

// Fields implements [frame.Message].
func (s *Session) Fields(c *frame.Codec) {
	c.Text(&s.Dir)
	c.Flag(&s.End)
}

// A Client asks for a command.
type Client struct {
	Hello Hello // apart from Program, Secret, Dir and Environ, which are this process's
	Stdin int   // a descriptor
	// Relay receives the signals of this process and sends those for the command, until ended is
	// closed. A nil Relay sends all.
	Relay func(signals chan os.Signal, send func(syscall.Signal), begun, ended <-chan struct{})
	// Suspend stops this process. A nil Suspend uses SIGSTOP.
	Suspend func()
}

// A Number is the payload of a welcome, of a signal, and of the status to exit with.
type Number uint64

// Bit positions, in a Number, of the signal that ended the command, and of the count of the signals
// that came from the client in time.
const (
	signalShift = 8
	takenShift  = 16
)

// Ended is the payload of KindExit.
func Ended(status int, signal syscall.Signal, taken int) Number {
	return Number(status | int(signal)<<signalShift | taken<<takenShift)
}

// Ending reports whether a signal means to end the command.
func Ending(sig syscall.Signal) bool {
	return slices.Contains([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGKILL}, sig)
}

// Fields implements [frame.Message].
func (n *Number) Fields(c *frame.Codec) { c.Long((*uint64)(n)) }

// A Reason says why nothing runs, for people.
type Reason string

// Fields implements [frame.Message].
func (r *Reason) Fields(c *frame.Codec) { c.Text((*string)(r)) }

// Error returns the reason.
func (r *Reason) Error() string { return string(*r) }

// EndBy ends this process by SIGINT if the command ended so: a shell ends a loop at ^C only if what
// ran in it died of that signal. Otherwise EndBy returns, also if status reports a later failure, if
// the caller made this process ignore SIGINT, or if it is the first process of a container, which no
// signal of its own ends: Go's runtime would exit with another status.
func EndBy(ended syscall.Signal, status int) {
	if ended != syscall.SIGINT || status != 128+int(ended) || os.Getpid() == 1 {
		return
	}
	signal.Reset(syscall.SIGINT)
	syscall.Kill(os.Getpid(), syscall.SIGINT)
	time.Sleep(time.Second) // another thread may receive it
}

// Empty is the payload of a message that has none.
type Empty struct{}

// Fields implements [frame.Message].
func (Empty) Fields(*frame.Codec) {}

// ErrNoRuntimeDir is the error for a user without a directory for a socket.
var ErrNoRuntimeDir = errors.New("XDG_RUNTIME_DIR does not name a directory by an absolute path")

// ErrServed is what a server prints on its standard error if another server already runs.
var ErrServed = errors.New("another sbxhost serve runs")

// Errors of Ask.
var (
	ErrAbsent   = errors.New("there is no server")
	ErrSilent   = errors.New("the server does not answer")
	ErrDeclined = errors.New("the server declined it")
	ErrOther    = errors.New("the server is another sbxhost")
	// ErrGone says that nobody knows how far the command came. The server's engines end with it,
	// and so do their commands.
	ErrGone = errors.New("sbxhost serve has ended, and the command with it")
)

// Socket is the name of the server's socket in its directory.
const Socket = "serve"

// StampOf distinguishes the file at a path from another one, and from itself after it was written
// again.
func StampOf(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d %d %x:%d", info.Size(), info.ModTime().UnixNano(), st.Dev, st.Ino), nil
}
