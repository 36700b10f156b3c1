package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/sbxhost/sbxhost/internal/source"
)

// A Pin is the checksum of an engine's executable for one platform.
type Pin struct {
	Engine   string
	Source   string // for a new block, if the engine has none
	Platform string // "linux_amd64"
	SHA256   string // hexadecimal
}

// Pin returns the file's text with the checksum. Everything else stays the same, with comments and
// layout: the checksum replaces that of the same platform, joins those of others, or follows
// source. An engine without a block gets one at the end. A file in the layout of Format stays in
// it.
//
// An error names the line if sha256 is more than an object of names and texts, which a program must
// not rewrite.
func (f *File) Pin(pin Pin) ([]byte, error) {
	if f.diags.HasErrors() || f.body == nil || f.path == "" {
		return nil, errors.New("only a file without errors can be changed")
	}
	out, at, err := f.pinned(pin)
	if err != nil {
		return nil, err
	}
	if was, diags := source.Format(f.path, f.source.Bytes); !diags.HasErrors() && bytes.Equal(was, f.source.Bytes) {
		if out, diags = source.Format(f.path, out); diags.HasErrors() {
			return nil, diags
		}
	}
	// Parse the result: a checksum in a comment, say, would look like one that is checked.
	after, diags := Parse(f.path, out, f.eval.input)
	if diags.HasErrors() || after.options.Engines[pin.Engine].SHA256[pin.Platform] != pin.SHA256 {
		return nil, fmt.Errorf("%s: sha256 is written in a way that a program cannot add to; write %s = %q into it yourself", at, pin.Platform, pin.SHA256)
	}
	return out, nil
}

// pinned changes the text. It also returns the range for errors.
func (f *File) pinned(pin Pin) ([]byte, hcl.Range, error) {
	text := f.source.Bytes
	quoted := strconv.Quote(pin.SHA256)
	newline := "\n"
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		newline = "\r\n"
	}
	block := f.labeledBlock("engine", pin.Engine)
	if block == nil {
		return appendBlock(text, pin, newline), hcl.Range{Filename: f.path, Start: f.body.EndRange.Start, End: f.body.EndRange.End}, nil
	}
	entry := pin.Platform + " = " + quoted
	attr := block.Body.Attributes["sha256"]
	if attr == nil {
		line := "sha256 = { " + entry + " }"
		open, shut := block.OpenBraceRange, block.CloseBraceRange
		if open.Start.Line == shut.Start.Line { // one line cannot hold a second attribute
			indent := indentOf(text, block.TypeRange.Start.Byte)
			only := string(bytes.TrimSpace(text[open.End.Byte:shut.Start.Byte]))
			lines := newline + indent + "  " + only + newline + indent + "  " + line + newline + indent
			return splice(text, open.End.Byte, shut.Start.Byte, lines), block.DefRange(), nil
		}
		after := block.Body.Attributes["source"].SrcRange
		at := f.endOfLine(after.End.Byte)
		return splice(text, at, at, newline+indentOf(text, after.Start.Byte)+line), block.DefRange(), nil
	}
	computed := func(at hcl.Range, what, write string) ([]byte, hcl.Range, error) {
		return nil, at, fmt.Errorf("%s: %s is computed; write %s yourself", at, what, write)
	}
	object, ok := attr.Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return computed(attr.SrcRange, "sha256", entry+" into it")
	}
	for _, item := range object.Items {
		if hcl.ExprAsKeyword(item.KeyExpr) != pin.Platform && !isLiteral(item.KeyExpr, pin.Platform) {
			continue
		}
		at := item.ValueExpr.Range()
		if !isPlainText(item.ValueExpr) {
			return computed(at, "the checksum", quoted+" in its place")
		}
		return splice(text, at.Start.Byte, at.End.Byte, quoted), attr.SrcRange, nil
	}
	if f.options.Engines[pin.Engine].SHA256[pin.Platform] != "" {
		return computed(attr.SrcRange, "the name of a platform", entry+" into it")
	}
	last := object.Items[len(object.Items)-1] // there is one: an empty object is an error
	at := last.ValueExpr.Range().End
	if at.Line == object.SrcRange.End.Line {
		return splice(text, at.Byte, at.Byte, ", "+entry), attr.SrcRange, nil
	}
	// A comma or comment after a value stays on its line.
	end := f.endOfLine(at.Byte)
	return splice(text, end, end, newline+indentOf(text, last.KeyExpr.Range().Start.Byte)+entry), attr.SrcRange, nil
}

func (f *File) labeledBlock(kind, name string) *hclsyntax.Block {
	if f.body == nil {
		return nil
	}
	for _, b := range f.body.Blocks {
		if b.Type == kind && len(b.Labels) == 1 && b.Labels[0] == name {
			return b
		}
	}
	return nil
}

func appendBlock(text []byte, pin Pin, newline string) []byte {
	out := bytes.Clone(text)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, newline...)
	}
	block := fmt.Sprintf("\nengine %q {\n  source = %s\n  sha256 = { %s = %q }\n}\n", pin.Engine, literal(pin.Source), pin.Platform, pin.SHA256)
	return append(out, strings.ReplaceAll(block, "\n", newline)...)
}

// literal is s as HCL text, without expressions.
func literal(s string) string {
	return string(bytes.ReplaceAll(bytes.ReplaceAll([]byte(strconv.Quote(s)), []byte("${"), []byte("$${")), []byte("%{"), []byte("%%{")))
}

func isLiteral(key hclsyntax.Expression, want string) bool {
	if k, ok := key.(*hclsyntax.ObjectConsKeyExpr); ok {
		key = k.Wrapped
	}
	value, diags := key.Value(nil)
	return !diags.HasErrors() && isText(value, want)
}

// isPlainText reports whether an expression is a text without expressions in it.
func isPlainText(e hclsyntax.Expression) bool {
	t, ok := e.(*hclsyntax.TemplateExpr)
	return ok && t.IsStringLiteral()
}

func splice(text []byte, from, to int, with string) []byte {
	return bytes.Join([][]byte{text[:from], text[to:]}, []byte(with))
}

// indentOf is the white space before a position.
func indentOf(text []byte, at int) string {
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	line := text[start:at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// endOfLine is the end of the line with a position, without the line break. It includes a comment
// that continues on further lines.
func (f *File) endOfLine(at int) int {
	tokens, _ := hclsyntax.LexConfig(f.source.Bytes, f.path, hcl.InitialPos)
	for _, t := range tokens {
		if t.Range.Start.Byte < at {
			continue
		}
		switch {
		case t.Type == hclsyntax.TokenNewline, t.Type == hclsyntax.TokenEOF:
			return t.Range.Start.Byte
		case t.Type == hclsyntax.TokenComment && bytes.HasSuffix(t.Bytes, []byte("\n")): // a comment of the kind that ends with its line
			return t.Range.Start.Byte + len(bytes.TrimRight(t.Bytes, "\r\n"))
		}
	}
	return len(f.source.Bytes)
}
