package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/sbxhost/sbxhost/shared"
)

// prepareImage sees to it that the image is there, and learns what a plan needs
// to know of it.
func (b *box) prepareImage(ctx context.Context, spec *shared.Spec) error {
	o := b.plans.options
	switch {
	case o.Image != "":
		return b.imageByName(ctx, o.Image)
	case o.Compose != "":
		return b.imageOfService(ctx, spec)
	}
	return b.imageBuilt(ctx, spec)
}

// imageByName takes an image from the daemon's store, or a registry.
func (b *box) imageByName(ctx context.Context, name string) error {
	o := b.plans.options
	facts, err := inspectImage(ctx, b.daemon.client, name)
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
		if facts, err = inspectImage(ctx, b.daemon.client, name); err != nil {
			return imageError(ctx, fmt.Sprintf("image %q", name), err)
		}
	}
	b.plans.image = facts
	return nil
}

func inspectImage(ctx context.Context, docker *client.Client, name string) (imageFacts, error) {
	got, err := docker.ImageInspect(ctx, name)
	if err != nil {
		return imageFacts{}, err
	}
	f := imageFacts{id: got.ID, name: name}
	if c := got.Config; c != nil {
		f.volumes = slices.Sorted(maps.Keys(c.Volumes))
		for _, entry := range c.Env {
			if path, ok := strings.CutPrefix(entry, "PATH="); ok {
				f.path = path
			}
		}
	}
	return f, nil
}

func (b *box) pull(ctx context.Context, name string) error {
	options := client.ImagePullOptions{}
	if at := b.plans.options.platform; at != nil {
		options.Platforms = []ocispec.Platform{*at}
	}
	b.progress(ctx, "fetching the image "+name)
	stream, err := b.daemon.client.ImagePull(ctx, name, options)
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
		// One line a layer, not one for each of its bytes.
		if message.Progress == nil || message.Progress.Current == 0 {
			b.progress(ctx, strings.TrimSpace(message.ID+" "+message.Status))
		}
	}
	return nil
}

func pullError(ctx context.Context, name string, err error) error {
	e := imageError(ctx, fmt.Sprintf("the daemon has no image %q and could not fetch it", name), err)
	if x, ok := e.(*shared.Error); ok {
		x.Attribute = "config.image"
		x.Hint = "see that the name is right and the daemon reaches a registry that has it; where it is private, fetch it with docker pull, since this engine logs in nowhere"
	}
	return e
}

func imageError(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config", Message: what + ": " + firstLine(err.Error())}
}
