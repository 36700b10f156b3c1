package config

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/source"
)

// Diagnostics are errors and warnings with their ranges in a file. HasErrors reports whether there
// are errors.
type Diagnostics = hcl.Diagnostics

// builtinName replaces the path of the built-in default in diagnostics.
const builtinName = "<built-in>"

//go:embed default.hcl
var builtin string

//go:embed sample.hcl
var sample string

// Sample is the commented configuration that `sbxhost init` writes.
func Sample() []byte { return []byte(sample) }

// File is a configuration file after Load or Parse.
type File struct {
	path      string // absolute; empty for the built-in default
	source    *source.Text
	eval      *evaluator
	dir       string
	names     []string // of sandboxes, in the file's order
	sandboxes map[string]*sandboxBlock
	options   host.Options
	mcp       MCP
	diags     hcl.Diagnostics
}

type sandboxBlock struct {
	*hcl.Block
	config *hcl.Block // nil without one
}

// Load reads and parses the file at path, or the built-in default if path is empty. The File is
// never nil; use it only if there are no errors.
func Load(path string, input EvalInput) (*File, Diagnostics) {
	if path == "" {
		return Parse(builtinName, []byte(builtin), input)
	}
	src, err := source.Read(path)
	if err != nil {
		f := &File{path: path, source: &source.Text{Name: path}}
		f.diags = f.source.Finish(hcl.Diagnostics{{
			Severity: hcl.DiagError,
			Summary:  "Configuration cannot be read",
			Detail:   upperFirst(err.Error()) + ".",
		}})
		return f, f.diags
	}
	return Parse(path, src, input)
}

// Parse decodes src, the text of the file filename. The directory of filename is the base of
// relative paths, which need it to be absolute. Parse returns all errors at once; the File is never
// nil.
func Parse(filename string, src []byte, input EvalInput) (*File, Diagnostics) {
	parsed, diags := source.Parse(filename, src)
	f := &File{source: parsed, eval: &evaluator{input: input}}
	if filepath.IsAbs(filename) {
		f.path, f.dir = filename, filepath.Dir(filename)
		f.options.Protected = []string{filename}
	}
	if diags.HasErrors() {
		f.diags = diags
		return f, f.diags
	}
	d := f.decoder()
	d.add(diags)
	d.file(f, f.source.Body())
	f.diags = f.source.Finish(d.diags)
	return f, f.diags
}

func (f *File) decoder() *decoder {
	return &decoder{eval: f.eval.value, unset: f.eval.unset, dir: f.dir, home: f.eval.input.Home,
		setRoot: func(path string) { f.eval.root = path }}
}

// Path is the absolute path of the file; empty for the built-in default.
func (f *File) Path() string { return f.path }

// Text is the file's text. Do not change it.
func (f *File) Text() []byte { return f.source.Bytes }

// Names are the names of the sandboxes, in the order of the file.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Options returns the file's host.Options, without the engines' own options, which
// [File.EngineOptions] decodes. A caller may set entries of its maps, but not what is in these. A
// file with errors returns its errors and no options, so that no half-understood policy is in force.
func (f *File) Options() (host.Options, Diagnostics) {
	if f.diags.HasErrors() {
		return host.Options{}, f.diags
	}
	o := f.options
	o.Protected, o.Sandboxes = slices.Clone(o.Protected), maps.Clone(o.Sandboxes)
	o.Engines, o.Credentials = maps.Clone(o.Engines), maps.Clone(o.Credentials)
	return o, nil
}

// Choose returns the sandbox to use: name, or the default one if name is empty.
func (f *File) Choose(name string) (string, error) {
	switch {
	case name != "" && f.sandboxes[name] != nil:
		return name, nil
	case name != "":
		return "", errors.New(strings.TrimSuffix(f.noSuchSandbox(name), "."))
	case f.options.DefaultSandbox != "":
		return f.options.DefaultSandbox, nil
	case len(f.names) == 0:
		return "", fmt.Errorf(`%s defines no sandbox: add a block such as sandbox "fast" { engine = "auto" }`, f.source.Name)
	}
	return "", fmt.Errorf("no default_sandbox in %s, and several to choose from: name one of %s",
		f.source.Name, list(quoted(f.names)))
}

func (f *File) noSuchSandbox(name string) string {
	detail := fmt.Sprintf("there is no sandbox %q.", name)
	if near := source.Nearest(name, f.names); near != "" {
		return detail + fmt.Sprintf(" Did you mean %q?", near)
	}
	where := "The file"
	if f.source.Name == builtinName {
		where = "The built-in configuration"
	}
	return detail + fmt.Sprintf(" %s defines %s.", where, list(quoted(f.names)))
}
