package seatbelt

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sbxhost/sbxhost/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// logProgram reads the system's log.
const logProgram = "/usr/bin/log"

const (
	// logPatience is how long the log may take to be followed.
	logPatience = 5 * time.Second
	// lateDenials is how long after a command's end its last denials are waited
	// for: the log comes in batches.
	lateDenials = 300 * time.Millisecond
	// maxLogLine bounds one entry of the log.
	maxLogLine = 64 << 10
)

// monitor follows the system's log while somebody is interested in it.
type monitor struct {
	program string

	mu      sync.Mutex
	stream  *stream
	watches map[string]*watch // by tag
}

// stream is a running `log stream`.
type stream struct {
	cmd   *exec.Cmd
	ready chan struct{} // closed when entries come, or never will
	err   error         // why not; final once ready is closed
}

// watch is one command's share of the log.
type watch struct {
	monitor *monitor
	tag     string

	mu     sync.Mutex
	tell   func(violation)
	early  []violation // before there was anybody to tell
	number int
}

// maxViolations bounds what is told of one command.
const maxViolations = 1000

// watch begins to collect the denials with a tag. It returns once the log is
// being followed.
func (m *monitor) watch(tag string) (*watch, error) {
	w := &watch{monitor: m, tag: tag}
	m.mu.Lock()
	if m.stream == nil {
		m.stream = m.follow()
	}
	s := m.stream
	m.watches[tag] = w
	m.mu.Unlock()

	select {
	case <-s.ready:
		if s.err == nil {
			return w, nil
		}
	case <-time.After(logPatience):
	}
	w.leave()
	message := "the system's log cannot be followed"
	select {
	case <-s.ready:
		message += ": " + s.err.Error()
	default:
	}
	return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.violations", Message: message,
		Hint: "leave it out, or use an administrator's account"}
}

// follow starts the program. Its environment is empty, like the launcher's.
func (m *monitor) follow() *stream {
	s := &stream{ready: make(chan struct{})}
	var stderr bytes.Buffer
	var out io.ReadCloser
	program, err := hostpath.Installed(m.program)
	if err == nil {
		s.cmd = program.Command(context.Background(), "stream", "--style", "ndjson", "--level", "default",
			"--predicate", `sender == "Sandbox" AND eventMessage CONTAINS "sbxhost-"`)
		s.cmd.Env, s.cmd.Stderr = []string{}, &stderr
		out, err = s.cmd.StdoutPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		s.err = err
		close(s.ready)
		return s
	}
	go func() {
		m.read(s, out)
		err := s.cmd.Wait()
		select {
		case <-s.ready:
		default:
			if s.err = err; s.err == nil {
				s.err = io.EOF
			}
			if text := strings.TrimSpace(stderr.String()); text != "" {
				s.err = &shared.Error{Message: quote(text)}
			}
			close(s.ready)
		}
	}()
	return s
}

// read hands out the entries. The program's first line says what it filters by,
// which it writes once it is connected.
func (m *monitor) read(s *stream, out io.Reader) {
	r := bufio.NewReaderSize(out, maxLogLine)
	first := true
	for {
		line, err := r.ReadSlice('\n')
		if err == bufio.ErrBufferFull {
			continue // too long for a denial; its rest is no entry either
		}
		if first && len(line) > 0 {
			first = false
			close(s.ready)
		}
		if v, ok := parseLog(line); ok {
			m.mu.Lock()
			w := m.watches[v.tag]
			m.mu.Unlock()
			w.add(v)
		}
		if err != nil {
			return
		}
	}
}

func (w *watch) add(v violation) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.number++; w.number > maxViolations {
		return
	}
	if w.tell == nil {
		w.early = append(w.early, v)
		return
	}
	w.tell(v)
}

// follow tells what was denied so far, and what is from now on.
func (w *watch) follow(tell func(violation)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range w.early {
		tell(v)
	}
	w.early, w.tell = nil, tell
}

// end waits for the last denials of a command that has ended.
func (w *watch) end() {
	if w == nil {
		return
	}
	<-time.After(lateDenials)
	w.leave()
}

// leave stops the program when nobody is left to tell.
func (w *watch) leave() {
	m := w.monitor
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watches, w.tag)
	if len(m.watches) == 0 && m.stream != nil {
		if m.stream.cmd != nil && m.stream.cmd.Process != nil {
			m.stream.cmd.Process.Kill()
		}
		m.stream = nil
	}
}
