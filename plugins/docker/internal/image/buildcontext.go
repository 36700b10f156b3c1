// Package image makes an image available: fetched, built, or from a service of a Compose file.
package image

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// buildContext writes the input of a build as a tar archive that depends only on names, modes and
// contents: the same tree gives the same bytes.
type buildContext struct {
	root *os.Root // nil for a Dockerfile without a context
	dir  string   // its path
	// Hidden from commands, which have the image, and can change .dockerignore.
	hidden     map[string]bool
	dockerfile string // its name in the archive
	text       []byte
}

// inlineName is the name of a Dockerfile that no file of the context can have.
const inlineName = "Dockerfile.sbxhost-inline"

// writeTo writes the archive and returns its checksum.
func (b *buildContext) writeTo(w io.Writer) (sum string, err error) {
	h := sha256.New()
	t := tar.NewWriter(io.MultiWriter(w, h))
	if err := b.write(t); err != nil {
		return "", err
	}
	if err := t.Close(); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (b *buildContext) write(t *tar.Writer) error {
	if b.root == nil {
		return writeFile(t, b.dockerfile, 0o644, b.text)
	}
	ignored, err := b.ignored()
	if err != nil {
		return err
	}
	return fs.WalkDir(b.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		if b.hidden[path.Join(b.dir, name)] {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		// Files of the build itself are never ignored.
		if name != b.dockerfile && name != ".dockerignore" {
			skip, err := ignored.MatchesOrParentMatches(name)
			if err != nil {
				return err
			}
			if skip {
				if d.IsDir() && !ignored.Exclusions() {
					return fs.SkipDir
				}
				if !d.IsDir() {
					return nil
				}
			}
		}
		return b.add(t, name, d)
	})
}

// ignored reads .dockerignore, which may be missing.
func (b *buildContext) ignored() (*patternmatcher.PatternMatcher, error) {
	f, err := b.root.Open(".dockerignore")
	if errors.Is(err, fs.ErrNotExist) {
		return patternmatcher.New(nil)
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	patterns, err := ignorefile.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf(".dockerignore: %w", err)
	}
	return patternmatcher.New(patterns)
}

func (b *buildContext) add(t *tar.Writer, name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	header := &tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Format: tar.FormatPAX, ModTime: time.Unix(0, 0)}
	switch {
	case info.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
		return t.WriteHeader(header)
	case info.Mode()&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = b.root.Readlink(name); err != nil {
			return err
		}
		return t.WriteHeader(header)
	case !info.Mode().IsRegular():
		return nil // a build cannot use a socket or fifo
	}
	f, err := b.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := t.WriteHeader(header); err != nil {
		return err
	}
	if _, err = io.CopyN(t, f, header.Size); err != nil {
		return fmt.Errorf("%s changed while it was read: %w", name, err)
	}
	return nil
}

func writeFile(t *tar.Writer, name string, mode int64, content []byte) error {
	if err := t.WriteHeader(&tar.Header{Name: path.Clean(name), Mode: mode, Size: int64(len(content)), Typeflag: tar.TypeReg,
		Format: tar.FormatPAX, ModTime: time.Unix(0, 0)}); err != nil {
		return err
	}
	_, err := t.Write(content)
	return err
}
