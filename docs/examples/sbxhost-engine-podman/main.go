// Sbxhost-engine-podman runs each command in a container of its own, by Podman's
// command line. The container's files are those of an image that is there already,
// and its root is who runs the engine.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
	"github.com/sbxhost/sbxhost/shared/seccomp"
)

const podman, options = "/usr/bin/podman", "run --rm --pull=never --preserve-fds=2 --user=0:0 --workdir=/ --entrypoint= --unsetenv-all --http-proxy=false --systemd=false --no-hosts --no-healthcheck --log-driver=none" +
	" --read-only --read-only-tmpfs=false --tmpfs=/run:ro,size=64k,notmpcopyup --image-volume=ignore --cap-drop=all --security-opt=no-new-privileges --security-opt=mask=/sys --cgroupns=private"

var environ = cmdengine.Environ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME", "XDG_RUNTIME_DIR", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF")

func main() { shared.Serve(engine()) }

func engine() shared.Engine {
	return cmdengine.New(cmdengine.Config{
		Init: true, ClearsUp: true, HomeOfCommand: true, Environ: environ,
		Info: shared.Info{
			Name: "podman", Version: "0.1.0", Doc: "runs commands in containers of Podman",
			Features: shared.Features{"network.none", "network.host", "filesystem.minimal", "mount.remap", "mount.tmpfs", "mount.nested",
				"hidden", "home.private", "temp.private", "processes.hidden", "kernel.filtered", "metadata", "tty"},
			Options: shared.OptionSchema{Attributes: []shared.OptionAttribute{{Name: "image", Type: "string", Doc: "an image that is on this machine", Required: true}}},
		},
		Probe: cmdengine.Trial("install podman, and see podman info", environ, podman, "info"),
		Open:  func(_ context.Context, spec *shared.Spec) error { _, err := commandLine(spec); return err },
		Launch: func(spec *shared.Spec, _ *shared.Command) (*exec.Cmd, error) {
			args, err := commandLine(spec)
			return &exec.Cmd{Path: podman, Args: args}, err
		},
		Filter: func(*shared.Spec) ([]byte, error) {
			filter, err := seccomp.New(runtime.GOARCH, seccomp.Options{UnixSockets: true})
			return filter.Bytes(), err
		},
	})
}

// commandLine are Podman's command line up to the command.
func commandLine(spec *shared.Spec) ([]string, error) {
	var config struct{ Image string }
	if err := json.Unmarshal(spec.Options, &config); err != nil || config.Image == "" {
		return nil, &shared.Error{Kind: shared.ErrInvalidSpec, Attribute: "config.image", Message: "is not the name of an image"}
	}
	args := append([]string{"podman"}, strings.Fields(options+" --network="+spec.Network.Mode.String())...)
	if os.Geteuid() == 0 { // whose containers have no user namespace of their own otherwise
		args = append(args, "--uidmap=0:0:4294967295", "--gidmap=0:0:4294967295")
	}
	view, err := cmdengine.View(spec, ":,\"\r\n")
	for i, e := range view {
		word := fmt.Sprintf("--mount=type=bind,source=%s,target=%s,ro=%t,bind-nonrecursive=%[3]t", e.Source, e.Path, e.Access != shared.ReadWrite)
		switch {
		case e.Access == shared.Private:
			word = "--tmpfs=" + e.Path + ":exec,nosuid,nodev,size=1g,mode=1777,notmpcopyup"
		case e.Access == shared.Hidden && i+1 < len(view) && strings.HasPrefix(view[i+1].Path, e.Path+"/"): // a mask would hide that as well
			word = "--tmpfs=" + e.Path + ":ro,nosuid,nodev,size=64k,notmpcopyup"
		case e.Access == shared.Hidden:
			word = "--security-opt=mask=" + e.Path
		}
		args = append(args, word)
	}
	return append(args, "--", config.Image), err
}
