package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/build"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/internal/paths"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/shared"
)

// builtName is the repository of the images that are built here. The tag is the checksum of their
// inputs.
const builtName = "sbxhost-built"

// imageBuilt builds the image of a Dockerfile, unless there is one from the same bytes.
func (b *Preparation) imageBuilt(ctx context.Context) error {
	o := b.Options
	attribute := "config.dockerfile"
	source := &buildContext{dockerfile: inlineName, text: []byte(o.Inline)}
	if o.Inline != "" {
		attribute = "config.dockerfile_inline"
	} else {
		file, err := inWorkspace(b.Spec, "dockerfile", o.Dockerfile)
		if err != nil {
			return err
		}
		if source.root, err = os.OpenRoot(filepath.Dir(file)); err != nil {
			return definition.Error("dockerfile", "%v", err)
		}
		defer source.root.Close()
		source.dir, source.hidden = filepath.Dir(file), hiddenFiles(b.Spec.Table)
		source.dockerfile = filepath.Base(file)
		b.guardDockerfile(file)
	}
	archive, err := os.CreateTemp("", "sbxhost-build-")
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: attribute, Message: err.Error()}
	}
	os.Remove(archive.Name())
	defer archive.Close()
	sum, err := source.writeTo(archive)
	if err == nil {
		_, err = archive.Seek(0, io.SeekStart)
	}
	if err != nil {
		return &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: attribute, Message: "reading the build's context: " + err.Error()}
	}
	tag := builtName + ":" + sum[:40]
	if at := o.ImagePlatform; at != nil {
		tag += "-" + strings.Trim(at.OS+"-"+at.Architecture+"-"+at.Variant, "-")
	}
	if o.Pull != "always" {
		facts, err := inspectImage(ctx, b.Daemon.Client, tag)
		if err == nil {
			b.Image = facts
			return nil
		}
		if !cerrdefs.IsNotFound(err) {
			return imageError(ctx, "the image built before", err)
		}
	}
	if err := b.build(ctx, attribute, tag, source.dockerfile, archive); err != nil {
		return err
	}
	facts, err := inspectImage(ctx, b.Daemon.Client, tag)
	if err != nil {
		return imageError(ctx, "the image just built", err)
	}
	b.Image = facts
	return nil
}

func (b *Preparation) build(ctx context.Context, attribute, tag, dockerfile string, archive io.Reader) error {
	o := b.Options
	options := client.ImageBuildOptions{
		Tags: []string{tag}, Dockerfile: dockerfile, Remove: true, ForceRemove: true, PullParent: o.Pull == "always",
		Version: build.BuilderV1, // every daemon has it, without a session
	}
	if o.ImagePlatform != nil {
		options.Platforms = []ocispec.Platform{*o.ImagePlatform}
	}
	progress(ctx, "building the image")
	result, err := b.Daemon.Client.ImageBuild(ctx, archive, options)
	if err != nil {
		e := imageError(ctx, "the daemon refused the build", err)
		if x, ok := e.(*shared.Error); ok {
			x.Kind, x.Attribute = shared.ErrInvalidSpec, attribute
		}
		return e
	}
	defer result.Body.Close()
	return b.followBuild(ctx, attribute, result.Body)
}

// followBuild reports the steps of a build. For a failed step it returns its name, with the end of
// its output.
func (b *Preparation) followBuild(ctx context.Context, attribute string, stream io.Reader) error {
	step, said := "", &lastLines{}
	for d := json.NewDecoder(stream); ; {
		var m jsonstream.Message
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return imageError(ctx, "the build broke off", err)
		}
		if m.Error != nil {
			e := &shared.Error{Kind: shared.ErrUnavailable, Attribute: attribute, Message: "the build failed: " + daemon.FirstLine(m.Error.Message)}
			if step != "" {
				e.Message = fmt.Sprintf("the build failed at %s: %s", step, daemon.FirstLine(m.Error.Message))
			}
			if tail := said.String(); tail != "" {
				e.Message += "; it said: " + tail
			}
			return e
		}
		for line := range strings.Lines(m.Stream) {
			line = strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(line, "Step "), strings.HasPrefix(line, "STEP "): // Docker's, Podman's
				step, said = line, &lastLines{}
				progress(ctx, line)
			default:
				said.add(line)
			}
		}
	}
}

// lastLines keeps the end of a step's output, for its error.
type lastLines struct{ lines []string }

const tailLines, tailBytes = 5, 300

// add drops lines of the builder itself.
func (l *lastLines) add(line string) {
	line = strings.NewReplacer("\x1b[91m", "", "\x1b[0m", "").Replace(line) // around what goes to stderr
	if line == "" || strings.HasPrefix(line, "--> ") || strings.HasPrefix(line, "---> ") || strings.HasPrefix(line, "Removing intermediate container ") {
		return
	}
	if len(line) > tailBytes {
		line = line[:tailBytes] + "..."
	}
	if l.lines = append(l.lines, line); len(l.lines) > tailLines {
		l.lines = l.lines[1:]
	}
}

func (l *lastLines) String() string { return strings.ToValidUTF8(strings.Join(l.lines, " | "), "?") }

// inWorkspace resolves a file that a definition names relative to the workspace.
func inWorkspace(spec *shared.Spec, option, name string) (string, error) {
	if !filepath.IsAbs(name) {
		root := definition.ProjectOf(spec)
		if root == "" {
			return "", definition.Error(option, "%q is relative, and there is no workspace", name)
		}
		name = filepath.Join(root, name)
	}
	replaced := ""
	file, info, err := hostpath.Follow("/", name, func(link string) {
		if shows := showing(spec, link); shows != nil && shows.Access == shared.ReadWrite {
			replaced = link
		}
	})
	switch {
	case err != nil:
		return "", definition.Error(option, "%v", err)
	case info == nil:
		return "", definition.Error(option, "there is no file %q", file)
	case !info.Mode().IsRegular():
		return "", definition.Error(option, "%q is not a regular file", file)
	case replaced != "":
		return "", &shared.Error{Kind: shared.ErrDenied, Attribute: "config." + option, Message: fmt.Sprintf("commands can replace the symlink %q, and so decide what runs outside of the sandbox", replaced),
			Hint: fmt.Sprintf("write the path that it leads to: %q", file)}
	}
	return file, nil
}

// hiddenFiles are the host's paths that are hidden in visible directories.
func hiddenFiles(table []shared.Entry) map[string]bool {
	cover, hidden := shared.Covers(table), map[string]bool{}
	for _, e := range table {
		if _, host := cover(filepath.Dir(e.Path)); host != "" && e.Access == shared.Hidden {
			hidden[filepath.Join(host, filepath.Base(e.Path))] = true
		}
	}
	return hidden
}

// guardDockerfile makes a file that decides what the daemon builds, with its rights, read-only for
// commands.
func (b *Preparation) guardDockerfile(file string) {
	best := showing(b.Spec, file)
	if best == nil || best.Access != shared.ReadWrite {
		return
	}
	b.Guarded = append(b.Guarded, shared.Entry{
		Source: file, Path: paths.Move(file, best.Source, best.Path),
		Why: "protected: what the image is built from", Access: shared.ReadOnly,
	})
}

// showing is the entry that shows a file of the host to commands, or nil.
func showing(spec *shared.Spec, file string) (best *shared.Entry) {
	for i := range spec.Table {
		m := &spec.Table[i]
		if m.Access.Shows() && paths.Inside(m.Source, file) && (best == nil || len(m.Source) > len(best.Source)) {
			best = m
		}
	}
	return best
}
