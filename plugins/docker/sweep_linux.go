package docker

import (
	"context"
	"time"

	"github.com/moby/moby/client"
)

// ownerLabel marks the engine's containers with the number of its process.
const ownerLabel = "org.sbxhost.owner"

// sweep removes the containers with a label that killed engines had made and not started. A living
// engine starts its own long before they have that age, and a container that was started goes when
// it ends.
func sweep(docker *client.Client, label, age string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := docker.ContainerPrune(ctx, client.ContainerPruneOptions{Filters: make(client.Filters).Add("label", label).Add("until", age)})
	return err
}
