package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"
	"github.com/sbxhost/sbxhost/plugins/docker/internal/owner"
)

// sweep removes the containers that killed engines had made and not started. Their other containers
// have ended with them.
func sweep(docker *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", owner.Label)})
	if err != nil {
		return
	}
	for _, c := range list.Items {
		if o, ok := owner.Parse(c.Labels[owner.Label]); ok && o.Gone() {
			docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
}
