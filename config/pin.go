package config

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// A Pin is the checksum of an engine's executable on one platform.
type Pin struct {
	Engine   string
	Source   string // for the block of an engine that has none
	Platform string // "linux_amd64"
	SHA256   string // in hexadecimal
}

// Pin gives the text of the file with the checksum in it. Nothing else
// changes, comments and layout included: the checksum takes the place of the
// one of the same platform, joins those of others, or follows source; an engine
// that the file does not declare gets a block at its end.
//
// An error names the line where sha256 is more than an object with names and
// texts, which a program must not rewrite.
func (f *File) Pin(pin Pin) ([]byte, error) {
	if f.diags.HasErrors() || f.body == nil || f.path == "" {
		return nil, errors.New("only a file without errors can be changed")
	}
	text := f.source.text
	quoted := strconv.Quote(pin.SHA256)
	block := f.engineBlock(pin.Engine)
	if block == nil {
		return appendBlock(text, pin), nil
	}
	attr := block.Body.Attributes["sha256"]
	if attr == nil {
		after := block.Body.Attributes["source"]
		if after == nil || after.SrcRange.Start.Line == block.OpenBraceRange.Start.Line {
			return nil, fmt.Errorf("%s: write the engine block with each attribute on a line of its own, and pin again", block.DefRange())
		}
		line := fmt.Sprintf("\n%ssha256 = { %s = %s }", indentOf(text, after.SrcRange.Start.Byte), pin.Platform, quoted)
		at := endOfLine(text, after.SrcRange.End.Byte)
		return splice(text, at, at, line), nil
	}
	object, ok := attr.Expr.(*hclsyntax.ObjectConsExpr)
	if !ok {
		return nil, fmt.Errorf("%s: sha256 is computed; write %s = %s into it yourself", attr.SrcRange, pin.Platform, quoted)
	}
	for _, item := range object.Items {
		if hcl.ExprAsKeyword(item.KeyExpr) != pin.Platform && !isLiteral(item.KeyExpr, pin.Platform) {
			continue
		}
		at := item.ValueExpr.Range()
		if !isPlainText(item.ValueExpr) {
			return nil, fmt.Errorf("%s: the checksum is computed; write %s in its place yourself", at, quoted)
		}
		return splice(text, at.Start.Byte, at.End.Byte, quoted), nil
	}
	entry := pin.Platform + " = " + quoted
	if len(object.Items) == 0 {
		at := object.SrcRange
		return splice(text, at.Start.Byte, at.End.Byte, "{ "+entry+" }"), nil
	}
	last := object.Items[len(object.Items)-1]
	at := last.ValueExpr.Range().End.Byte
	if last.KeyExpr.Range().Start.Line == object.SrcRange.Start.Line {
		return splice(text, at, at, ", "+entry), nil
	}
	// What follows a value on its line, a comma or a comment, stays with it.
	at = endOfLine(text, at)
	return splice(text, at, at, "\n"+indentOf(text, last.KeyExpr.Range().Start.Byte)+entry), nil
}

func (f *File) engineBlock(name string) *hclsyntax.Block {
	if f.body == nil {
		return nil
	}
	for _, b := range f.body.Blocks {
		if b.Type == "engine" && len(b.Labels) == 1 && b.Labels[0] == name {
			return b
		}
	}
	return nil
}

func appendBlock(text []byte, pin Pin) []byte {
	out := bytes.Clone(text)
	if len(out) > 0 && out[len(out)-1] != '\n' {
		out = append(out, '\n')
	}
	return fmt.Appendf(out, "\nengine %q {\n  source = %s\n  sha256 = { %s = %q }\n}\n", pin.Engine, literal(pin.Source), pin.Platform, pin.SHA256)
}

// literal is s as HCL writes it, so that nothing in it is an expression.
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

// indentOf is the white space before what begins at a place.
func indentOf(text []byte, at int) string {
	start := bytes.LastIndexByte(text[:at], '\n') + 1
	line := text[start:at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

func endOfLine(text []byte, at int) int {
	if n := bytes.IndexByte(text[at:], '\n'); n >= 0 {
		at += n
	} else {
		at = len(text)
	}
	if at > 0 && text[at-1] == '\r' {
		at--
	}
	return at
}
