package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/kept"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/owner"
)

// sweep removes what killed engines left: containers that they had made and not started, and
// containers of removed sessions. Their other containers have ended with them.
func sweep(docker *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", owner.Label)})
	if err != nil {
		return
	}
	for _, c := range list.Items {
		o, ok := owner.Parse(c.Labels[owner.Label])
		useless := ok && o.Gone()
		if ok && c.Labels[kept.SessionLabel] != "" {
			useless = kept.Orphaned(&c, o, useless)
		}
		if useless {
			docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
}
