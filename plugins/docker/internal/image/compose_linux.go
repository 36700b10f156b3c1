package image

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/definition"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/owner"
	"github.com/sbxhost/sbxhost/shared"
)

// The labels that Compose gives its containers and networks.
const (
	ProjectLabel = "com.docker.compose.project"
	serviceLabel = "com.docker.compose.service"
)

// composePrefix begins the names of this engine's Compose projects. The rest is the engine's
// process, with which another engine can see whether the owner is gone, and a number.
const composePrefix = "sbxhost-"

// imageOfService makes Compose make the service and its dependencies, takes the image and the
// network from there, and starts the dependencies if commands can reach them. It never starts the
// service's own container: commands run in containers of this engine.
func (b *Preparation) imageOfService(ctx context.Context) error {
	o := b.Options
	file, err := inWorkspace(b.Spec, "compose", o.Compose)
	if err != nil {
		return err
	}
	if shows := showing(b.Spec, file); shows != nil && shows.Access == shared.ReadWrite {
		// It can ask the daemon for anything, and name other files that do.
		return &shared.Error{Kind: shared.ErrDenied, Attribute: "config.compose",
			Message: fmt.Sprintf("commands can write to %q, and so decide what runs outside of the sandbox", file),
			Hint:    "keep it where they cannot, or say read_only = true"}
	}
	program, err := b.FindCompose()
	if err != nil {
		return err
	}
	c := &compose{program: program, file: file, Project: b.Project, preparation: b}
	b.Compose = c
	progress(ctx, "preparing the service "+o.Service)
	if err := c.run(ctx, "up", "--no-start", o.Service); err != nil {
		return err
	}
	members, err := b.Daemon.Client.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", ProjectLabel+"="+c.Project)})
	if err != nil {
		return imageError(ctx, "the containers of the Compose project", err)
	}
	var own *container.Summary
	var others []string
	for i := range members.Items {
		if m := &members.Items[i]; m.Labels[serviceLabel] == o.Service {
			own = m
		} else {
			others = append(others, m.Labels[serviceLabel])
		}
	}
	if own == nil {
		return definition.Error("service", "Compose made no container for %q", o.Service)
	}
	if b.Image, err = inspectImage(ctx, b.Daemon.Client, own.ImageID); err != nil {
		return imageError(ctx, "the image of service "+o.Service, err)
	}
	if b.Spec.Network.Mode != shared.NetworkHost {
		return nil // commands could reach no service
	}
	if own.NetworkSettings != nil && len(own.NetworkSettings.Networks) > 0 {
		b.Network = slices.Sorted(maps.Keys(own.NetworkSettings.Networks))[0]
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	return c.run(ctx, append([]string{"up", "-d", "--no-recreate"}, slices.Compact(others)...)...)
}

// FindCompose looks where Docker's own command line has its plugins, and where systems install the
// older program. Never in PATH: the workspace could supply its own.
func (b *Preparation) FindCompose() (*hostpath.Program, error) {
	var candidates []string
	if home := b.Getenv("HOME"); filepath.IsAbs(home) {
		candidates = append(candidates, filepath.Join(home, ".docker/cli-plugins/docker-compose"))
	}
	candidates = append(candidates,
		"/usr/local/lib/docker/cli-plugins/docker-compose", "/usr/local/libexec/docker/cli-plugins/docker-compose",
		"/usr/lib/docker/cli-plugins/docker-compose", "/usr/libexec/docker/cli-plugins/docker-compose",
		"/usr/local/bin/docker-compose", "/usr/bin/docker-compose")
	for _, path := range candidates {
		program, err := hostpath.Installed(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.compose", Message: err.Error()}
		}
		if shows := showing(b.Spec, program.Path()); shows != nil && shows.Access == shared.ReadWrite {
			return nil, &shared.Error{Kind: shared.ErrDenied, Attribute: "config.compose",
				Message: fmt.Sprintf("commands can write to %q, and so decide what runs outside of the sandbox", program.Path()),
				Hint:    "bind it read-only, or bind less"}
		}
		return program, nil
	}
	return nil, &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.compose",
		Message: "neither Docker's Compose plugin nor docker-compose is installed",
		Hint:    "install the package docker-compose or docker-compose-plugin, or name an image"}
}

// compose is one project of Compose, for one box.
type compose struct {
	program       *hostpath.Program
	file, Project string
	preparation   *Preparation
}

// run runs Compose to its end, and reports its progress.
func (c *compose) run(ctx context.Context, words ...string) error {
	cmd := c.program.Command(ctx, append([]string{"--project-name", c.Project, "--file", c.file}, words...)...)
	cmd.Dir = filepath.Dir(c.file)
	getenv := c.preparation.Getenv
	cmd.Env = []string{
		"DOCKER_HOST=unix://" + c.preparation.Daemon.Endpoint.Socket, "PATH=/usr/local/bin:/usr/bin:/bin",
		"HOME=" + getenv("HOME"), "DOCKER_CONFIG=" + getenv("DOCKER_CONFIG"),
		"COMPOSE_ANSI=never", "COMPOSE_INTERACTIVE_NO_CLI=1",
		"COMPOSE_DOCKER_CLI_BUILD=0", // the older one would look for Docker's command line
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	r, w := io.Pipe()
	cmd.Stdout, cmd.Stderr = w, w
	said, read := &lastLines{}, make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(r); lines.Scan(); {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				said.add(line)
				progress(ctx, line)
			}
		}
		io.Copy(io.Discard, r) // after a line that is too long
	}()
	err := cmd.Run()
	w.Close()
	<-read
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Attribute: "config.compose",
			Message: fmt.Sprintf("%s %s: %v; it said: %s", c.program.Path(), words[0], err, said)}
	}
	return nil
}

// down removes all that up has made, with volumes: they were made for this box.
func (c *compose) down(ctx context.Context) error {
	return c.run(ctx, "down", "--volumes", "--remove-orphans", "--timeout", "0")
}

func ProjectName(o owner.Owner, n uint64) string { return fmt.Sprintf("%s%s_%d", composePrefix, o, n) }

// projectOwner reads the owner of a project from its name.
func projectOwner(name string) (owner.Owner, bool) {
	rest, ok := strings.CutPrefix(name, composePrefix)
	rest, _, _ = strings.Cut(rest, "_")
	o, whole := owner.Parse(rest)
	return o, ok && whole
}
