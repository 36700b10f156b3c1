package execute

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/shared"
)

// eventLog writes the events for -events, one JSON line each, with the names of
// docs/result.schema.json. A nil log writes nothing.
type eventLog struct {
	mu   sync.Mutex
	file *os.File
	err  error
}

// openEvents opens a file as -result does, or takes a descriptor that the caller has opened.
func openEvents(target, cwd string, writable func() []string) (*eventLog, error) {
	number, ok := strings.CutPrefix(target, "/dev/fd/")
	fd, err := strconv.Atoi(number)
	if !ok || err != nil {
		at, err := openPlace("-events", target, cwd, writable)
		if err != nil {
			return nil, err
		}
		defer at.dir.Close()
		file, err := at.dir.Create(at.name, 0o644)
		if err != nil {
			return nil, fmt.Errorf("-events: %w", err)
		}
		return &eventLog{file: file}, nil
	}
	if fd <= 2 {
		return nil, fmt.Errorf("-events: /dev/fd/%d is a standard stream, which the command has: open another descriptor, such as 3>FILE", fd)
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return nil, fmt.Errorf("-events: descriptor %d is not open for writing", fd)
	}
	unix.CloseOnExec(fd) // engines must not get it
	return &eventLog{file: os.NewFile(uintptr(fd), target)}, nil
}

// write writes one line.
func (l *eventLog) write(event string, at time.Time, fields any) {
	if l == nil {
		return
	}
	if at.IsZero() { // an engine may leave the time out
		at = time.Now()
	}
	line, err := json.Marshal(struct {
		Event string    `json:"event"`
		Time  time.Time `json:"time"`
	}{event, at})
	var more []byte
	if err == nil {
		more, err = json.Marshal(fields)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && l.err == nil {
		more = bytes.TrimPrefix(more, []byte("{"))
		if len(more) > 1 {
			line = append(line[:len(line)-1], ',')
			line = append(line, more...)
		}
		_, err = l.file.Write(append(line, '\n'))
	}
	l.err = errors.Join(l.err, err)
}

// Message is for events that have only a text for people.
type Message struct {
	Message string `json:"message"`
}

func (l *eventLog) event(e shared.Event) {
	if l == nil {
		return
	}
	switch decoded := host.DecodeEvent(&e).(type) {
	case host.Denial:
		l.write("denial", e.Time, decoded)
	case nil:
		if e.Kind != shared.EventTraced {
			l.write(string(e.Kind), e.Time, Message{e.Message})
		}
	default:
		l.write(string(e.Kind), e.Time, decoded)
	}
}

// DecidedEvent writes its event before the command runs.
type DecidedEvent struct {
	Sandbox       string              `json:"sandbox"`
	Engine        string              `json:"engine"`
	EngineProgram *host.EngineProgram `json:"engine_program"`
	Decision      string              `json:"decision"`
	Rule          string              `json:"rule"`
	Reason        string              `json:"reason"`
	Session       string              `json:"session"`
	Review        string              `json:"review"`
}

func (l *eventLog) decided(r host.Report) {
	l.write("decided", time.Now(), DecidedEvent{r.Sandbox, r.Engine, r.EngineProgram, r.Decision, r.Rule, r.Reason, r.Session.Name, r.Review})
}

// close returns the error that stopped the writing. If the reader went away, that is no error.
func (l *eventLog) close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := errors.Join(l.err, l.file.Close())
	if err == nil || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return fmt.Errorf("-events: %w", err)
}
