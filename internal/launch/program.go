package launch

import (
	"context"
	"os"
	"os/exec"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// Program is the executable of an engine.
type Program struct {
	Name string `json:"name"` // the definitions' name for the engine, whatever it calls itself
	Path string `json:"path"` // of the host, resolved
	// SHA256 is its checksum at its start, in lower case hexadecimal; empty if the file cannot be
	// read.
	SHA256 string `json:"sha256"`
}

// program is an engine's executable and how to start it.
type program struct {
	name     string
	file     *hostpath.Program
	source   string   // for people: "built in", the path
	declared bool     // not installed with this program
	sha256   string   // the checksum that the executable must have; empty permits any
	env      []string // "name=value": all that the process gets of the host's environment
}

func invalid(attribute, message, hint string) error {
	return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: message, Hint: hint}
}

// command returns the command line of the program, checked against its checksum. Call release after
// the start.
func (p *program) command() (cmd *exec.Cmd, release func(), err error) {
	cmd = p.file.Command(context.Background())
	cmd.Args[0], cmd.Dir, cmd.Env = p.file.Path(), "", p.env
	if p.sha256 == "" {
		return cmd, func() {}, nil
	}
	var dir string
	verified, err := openPinned(p.file.Path(), p.sha256)
	if err == nil {
		if dir, err = executePinned(cmd, verified, p.sha256); err != nil {
			verified.Close()
		}
	}
	if err != nil {
		return nil, nil, &Error{Engine: p.name, Source: p.source, Err: err}
	}
	return cmd, func() {
		verified.Close()
		if dir != "" {
			os.RemoveAll(dir)
		}
	}, nil
}

// recorded is the program for reports; nil for one that was installed with this one, and has its
// version.
func (p *program) recorded() *Program {
	if !p.declared {
		return nil
	}
	r := &Program{Name: p.name, Path: p.file.Path(), SHA256: p.sha256}
	if r.SHA256 == "" {
		r.SHA256, _ = Checksum(p.file.Path())
	}
	return r
}
