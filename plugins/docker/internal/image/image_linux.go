// Package image makes a definition's image available.
package image

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/plugins/docker/internal/daemon"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/plan"
	"github.com/sbxhost/sbxhost/shared"
)

// progress reports the progress of a long preparation.
func progress(ctx context.Context, message string) {
	shared.Progress(ctx, shared.Event{Kind: shared.EventProgress, Time: time.Now(), Message: message})
}

// Fetch takes the image from the daemon's store, or a registry.
func Fetch(ctx context.Context, docker *client.Client, o *definition.Options) (facts plan.Image, err error) {
	name := o.Image
	facts, err = inspectImage(ctx, docker, name)
	missing := cerrdefs.IsNotFound(err)
	if missing && o.Pull == "never" {
		return facts, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.image",
			Message: fmt.Sprintf("the daemon has no image %q, and pull is \"never\"", name),
			Hint:    "make it known to the daemon with docker pull, build, load or import"}
	}
	if missing || err == nil && o.Pull == "always" {
		if err := pull(ctx, docker, o); err != nil {
			return facts, err
		}
		facts, err = inspectImage(ctx, docker, name)
	}
	if err != nil {
		err = imageError(ctx, fmt.Sprintf("image %q", name), err)
	}
	return facts, err
}

func inspectImage(ctx context.Context, docker *client.Client, name string) (f plan.Image, err error) {
	got, err := docker.ImageInspect(ctx, name)
	if err != nil {
		return f, err
	}
	f.ID = got.ID
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

func pull(ctx context.Context, docker *client.Client, o *definition.Options) error {
	name, options := o.Image, client.ImagePullOptions{}
	if at := o.ImagePlatform; at != nil {
		options.Platforms = []ocispec.Platform{*at}
	}
	progress(ctx, "fetching the image "+name)
	stream, err := docker.ImagePull(ctx, name, options)
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
		x.Hint = "make sure that the name is right and the daemon can reach its registry; fetch a private image with docker pull, because this engine does not log in"
	}
	return e
}

func imageError(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.image", Message: what + ": " + daemon.FirstLine(err.Error())}
}
