package docker

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/moby/moby/client"

	"github.com/sbxhost/sbxhost/shared/proc"
)

// ownerLabel marks a container with the engine process that has made it.
const ownerLabel = "org.sbxhost.owner"

// ownerLabels says who this process is, so that another can tell when it is
// gone: a process number alone comes to be somebody else's.
func ownerLabels() map[string]string {
	return map[string]string{ownerLabel: thisOwner().String()}
}

func thisOwner() owner {
	return owner{boot: bootID(), namespace: pidNamespace(), pid: os.Getpid(), started: startTime(os.Getpid())}
}

func bootID() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.ReplaceAll(strings.TrimSpace(string(raw)), "-", "")
}

func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return strings.Trim(name, "pid:[]")
}

// startTime is a process's in ticks since the boot, empty if there is none.
func startTime(pid int) string {
	return proc.Stat(pid, proc.StatStart)
}

// sweep removes what engines that were killed have left: containers that they
// had made and not yet started, and the services that Compose had started for
// them; and containers of sessions that are gone. Other containers that they had started have ended with them.
func sweep(docker *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	list, err := docker.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: make(client.Filters).Add("label", ownerLabel)})
	if err != nil {
		return
	}
	boot, namespace := bootID(), pidNamespace()
	for _, c := range list.Items {
		o, ok := parseOwner(c.Labels[ownerLabel])
		useless := ok && o.gone(boot, namespace, startTime)
		if ok && c.Labels[sessionLabel] != "" {
			useless = outlasted(&c, o, useless, namespace)
		}
		if useless {
			docker.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
	sweepProjects(ctx, docker)
}
