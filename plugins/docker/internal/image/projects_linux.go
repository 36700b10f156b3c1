package image

import (
	"context"

	"github.com/moby/moby/client"
)

// SweepProjects removes the rest of Compose projects whose engine is gone.
func SweepProjects(ctx context.Context, docker *client.Client) {
	orphaned := func(labels map[string]string) bool {
		o, ok := projectOwner(labels[ProjectLabel])
		return ok && o.Gone()
	}
	labelled := make(client.Filters).Add("label", ProjectLabel)
	if list, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labelled}); err == nil {
		for _, c := range list.Items {
			if orphaned(c.Labels) {
				docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			}
		}
	}
	if list, err := docker.NetworkList(ctx, client.NetworkListOptions{Filters: labelled}); err == nil {
		for _, n := range list.Items {
			if orphaned(n.Labels) {
				docker.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{})
			}
		}
	}
	if list, err := docker.VolumeList(ctx, client.VolumeListOptions{Filters: labelled}); err == nil {
		for _, v := range list.Items {
			if orphaned(v.Labels) {
				docker.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{})
			}
		}
	}
}
