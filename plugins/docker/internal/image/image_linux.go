package image

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// A Preparation makes a definition's image available.
type Preparation struct {
	Daemon  *daemon.Daemon
	Options *definition.Options
	Spec    *shared.Spec
	Getenv  func(string) string
	// project is the name of a Compose project that nobody else has.
	Project string

	// image, and the rest, is known after Prepare: the network of a Compose project, and the files
	// that decide what is built, which commands must not write.
	Image   plan.Image
	Network string
	Guarded []shared.Entry

	Compose   *compose // may be nil
	releasing sync.Once
}

// Prepare fetches or makes the image.
func (b *Preparation) Prepare(ctx context.Context) error {
	o := b.Options
	switch {
	case o.Image != "":
		return b.imageByName(ctx, o.Image)
	case o.Compose != "":
		return b.imageOfService(ctx)
	}
	return b.imageBuilt(ctx)
}

// Release makes Compose remove what it has made.
func (b *Preparation) Release() {
	b.releasing.Do(func() {
		if b.Compose == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), daemon.RemovalTime)
		defer cancel()
		b.Compose.down(ctx) // the next engine removes the rest
	})
}

// progress reports the progress of a long preparation.
func progress(ctx context.Context, message string) {
	shared.Progress(ctx, shared.Event{Kind: shared.EventProgress, Time: time.Now(), Message: message})
}

// imageByName takes an image from the daemon's store, or a registry.
func (b *Preparation) imageByName(ctx context.Context, name string) error {
	o := b.Options
	facts, err := inspectImage(ctx, b.Daemon.Client, name)
	if err != nil && !cerrdefs.IsNotFound(err) {
		return imageError(ctx, fmt.Sprintf("image %q", name), err)
	}
	missing := err != nil
	switch {
	case missing && o.Pull == "never":
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.image",
			Message: fmt.Sprintf("the daemon has no image %q, and pull is \"never\"", name),
			Hint:    "make it known to the daemon with docker pull, build, load or import"}
	case missing || o.Pull == "always":
		if err := b.pull(ctx, name); err != nil {
			return err
		}
		if facts, err = inspectImage(ctx, b.Daemon.Client, name); err != nil {
			return imageError(ctx, fmt.Sprintf("image %q", name), err)
		}
	}
	b.Image = facts
	return nil
}

func inspectImage(ctx context.Context, docker *client.Client, name string) (plan.Image, error) {
	got, err := docker.ImageInspect(ctx, name)
	if err != nil {
		return plan.Image{}, err
	}
	f := plan.Image{ID: got.ID}
	if c := got.Config; c != nil {
		f.Volumes = slices.Sorted(maps.Keys(c.Volumes))
		for _, entry := range c.Env {
			if path, ok := strings.CutPrefix(entry, "PATH="); ok {
				f.Path = path
			}
		}
	}
	return f, nil
}

func (b *Preparation) pull(ctx context.Context, name string) error {
	options := client.ImagePullOptions{}
	if at := b.Options.ImagePlatform; at != nil {
		options.Platforms = []ocispec.Platform{*at}
	}
	progress(ctx, "fetching the image "+name)
	stream, err := b.Daemon.Client.ImagePull(ctx, name, options)
	if err != nil {
		return pullError(ctx, name, err)
	}
	defer stream.Close()
	for message, err := range stream.JSONMessages(ctx) {
		if err == nil && message.Error != nil {
			err = message.Error
		}
		if err != nil {
			return pullError(ctx, name, err)
		}
		// One line for each layer, not for each progress of it.
		if message.Progress == nil || message.Progress.Current == 0 {
			progress(ctx, strings.TrimSpace(message.ID+" "+message.Status))
		}
	}
	return nil
}

func pullError(ctx context.Context, name string, err error) error {
	e := imageError(ctx, fmt.Sprintf("the daemon has no image %q and could not fetch it", name), err)
	if x, ok := e.(*shared.Error); ok {
		x.Attribute = "config.image"
		x.Hint = "make sure that the name is right and the daemon can reach its registry; fetch a private image with docker pull, because this engine does not log in"
	}
	return e
}

func imageError(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config", Message: what + ": " + daemon.FirstLine(err.Error())}
}
