package approvals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// ErrTampered is wrapped by the error for a store that counts as empty because somebody else could
// have written it, or because it is invalid.
var ErrTampered = errors.New("counts as empty and is left as it is")

// document is one file of a store.
type document struct {
	dir, name string
}

func (d document) path() string { return filepath.Join(d.dir, d.name) }

func (d document) tampered(format string, args ...any) error {
	return fmt.Errorf("%s %s: it %w; look at it, and remove or repair it", d.path(), fmt.Sprintf(format, args...), ErrTampered)
}

// listFile is a document that holds a list of T under a name.
type listFile[T any, P entry[T]] struct {
	document
	field string
}

// Version is the version of the files' format.
const Version = 2

type entry[T any] interface {
	*T
	texts() []*string // texts that may not be UTF-8, in a copy
	check() error     // says what is invalid
}

// decoded are the last text of each file name that was decoded, and its entries. A command reads the
// trusted configurations more than once, and a server reads the same ones for each command.
var decoded sync.Map

type decodedText struct {
	text []byte
	list any
}

// list returns the entries; none if there is no file.
func (f listFile[T, P]) list() ([]T, error) {
	text, err := f.read()
	if err != nil || text == nil {
		return nil, err
	}
	if last, ok := decoded.Load(f.name); ok && bytes.Equal(last.(*decodedText).text, text) {
		return slices.Clone(last.(*decodedText).list.([]T)), nil
	}
	list, err := f.decode(text)
	if err == nil {
		decoded.Store(f.name, &decodedText{text, slices.Clone(list)})
	}
	return list, err
}

// change replaces the list under the lock. It writes nothing if the text stays the same.
func (f listFile[T, P]) change(ctx context.Context, change func([]T) []T) error {
	return f.locked(ctx, func(dir *os.File) error {
		var list []T
		old, err := f.readIn(dir)
		if err == nil && old != nil {
			list, err = f.decode(old)
		}
		if err != nil {
			return err
		}
		list = change(list)
		text, err := f.encode(list)
		if err != nil || bytes.Equal(text, old) || old == nil && len(list) == 0 {
			return err
		}
		return f.replace(dir, text)
	})
}

func (f listFile[T, P]) encode(list []T) ([]byte, error) {
	out := make([]T, len(list))
	for i, e := range list {
		for _, text := range P(&e).texts() {
			*text = encodeText(*text)
		}
		out[i] = e
	}
	text, err := json.MarshalIndent(map[string]any{"version": Version, f.field: out}, "", "  ")
	return append(text, '\n'), err
}

// decode reads one JSON document of this version, and refuses unknown fields: such a field may
// restrict an entry.
func (f listFile[T, P]) decode(text []byte) ([]T, error) {
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(text, &whole); err != nil {
		return nil, f.tampered("is not JSON, or only a part of it (%v)", err)
	}
	// Check the version first: a newer file may have any other form.
	version := 0
	if err := json.Unmarshal(whole["version"], &version); err != nil || version != Version {
		return nil, f.tampered("is of version %d, and this program knows version %d", version, Version)
	}
	if _, ok := whole[f.field]; !ok || len(whole) != 2 {
		return nil, f.tampered("makes no sense (it has other fields than version and %s)", f.field)
	}
	var list []T
	dec := json.NewDecoder(bytes.NewReader(whole[f.field]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&list); err != nil {
		return nil, f.tampered("makes no sense (%v)", err)
	}
	for i := range list {
		e := P(&list[i])
		for _, text := range e.texts() {
			var err error
			if *text, err = decodeText(*text); err != nil {
				return nil, f.tampered("makes no sense (%s[%d]: %v)", f.field, i, err)
			}
		}
		if err := e.check(); err != nil {
			return nil, f.tampered("makes no sense (%s[%d].%v)", f.field, i, err)
		}
	}
	return list, nil
}
