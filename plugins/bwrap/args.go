package bwrap

import (
	"fmt"
	"strconv"

	"github.com/sbxhost/sbxhost/internal/engine/holder"
	"github.com/sbxhost/sbxhost/internal/engine/mountplan"
	"github.com/sbxhost/sbxhost/internal/hostpath"
	"github.com/sbxhost/sbxhost/shared"
)

// Bounds of bubblewrap, which counts its own command line and the words of --args together. The
// kernel limits each word of the command line.
const (
	maxArguments   = 9000
	maxArgumentLen = 128<<10 - 1
	// reserved is for the command line itself: bwrap, --args, the init and its descriptors.
	reserved = 100
	// maxInputs leaves space for other descriptors: most systems give a process 1024.
	maxInputs = 900
	// maxMounts take more than a second. bubblewrap reads the table of all mounts again for each
	// mount, so twice as many take four times as long.
	maxMounts = 1500
)

// namespaces are the options that do not depend on the Spec.
//
// There is no --new-session: the init calls setsid before it executes the command, the engine has
// no terminal, and a command's terminal is a pair of its own, so TIOCSTI reaches nobody. With
// --new-session the shell inside would lose its job control.
var namespaces = [...]string{
	"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup",
	// Else a root caller's capabilities would stay.
	"--cap-drop", "ALL",
	// With it root's init makes a user namespace for the command in which root is root.
	"--cap-add", "CAP_SETFCAP",
	"--die-with-parent",
	// The init is pid 1: bubblewrap's own drops SIGTERM and hides how the command ended.
	"--as-pid-1",
	// For the init, which then starts faster; the command has only its own environment.
	"--setenv", "GOMAXPROCS", "1",
	// A name that resolves in every /etc/hosts and reveals nothing of the host.
	"--hostname", "localhost",
	"--chdir", "/",
}

// An input is a file that bubblewrap gets a descriptor of: to copy, or as the source of a bind; or
// a text, which becomes a file.
type input struct {
	path   string
	source bool
	text   string
}

// args returns the options for ops, and the files that they read from descriptors: the n-th is
// descriptor firstFD+n. With a negative firstFD the options name the file in angle brackets
// instead.
func args(network shared.NetworkMode, ops []holder.Op, firstFD int) (words []string, files []input, err error) {
	add := func(more ...string) { words = append(words, more...) }
	take := func(in input) string {
		fd := "<" + in.path + ">"
		if firstFD >= 0 {
			fd = strconv.Itoa(firstFD + len(files))
		}
		files = append(files, in)
		return fd
	}
	bind := func(option string, o holder.Op) {
		if o.FromSpec {
			add(option+"-fd", take(input{path: o.Source, source: true}), o.Dest)
		} else {
			add(option, o.Source, o.Dest)
		}
	}
	add(namespaces[:]...)
	if network != shared.NetworkHost {
		add("--unshare-net")
	}
	for _, o := range ops {
		switch o.Kind {
		case holder.ReadOnlyBind:
			bind("--ro-bind", o)
		case holder.Bind, holder.Pin:
			bind("--bind", o)
		case holder.Memory, holder.MountPoints:
			add("--perms", octal(o.Perms), "--size", strconv.FormatUint(o.Size, 10), "--tmpfs", o.Dest)
		case holder.Symlink:
			add("--symlink", o.Source, o.Dest)
		case holder.Processes:
			add("--proc", o.Dest)
		case holder.Devices:
			add("--dev", o.Dest)
		case holder.Device:
			add("--dev-bind", o.Source, o.Dest)
		case holder.Directory:
			add("--perms", octal(o.Perms), "--dir", o.Dest)
		case holder.File:
			add("--perms", octal(o.Perms), "--file", take(input{path: o.Source}), o.Dest)
		case holder.Text:
			add("--perms", octal(o.Perms), "--file", take(input{path: "a text", text: o.Source}), o.Dest)
		case holder.ReadOnly:
			add("--remount-ro", o.Dest)
		case holder.HideFile:
			// bubblewrap binds without device access, so the null device can be neither read nor
			// written there.
			add("--ro-bind", "/dev/null", o.Dest)
		case holder.HideDirectory:
			add("--perms", "0000", "--size", "4096", "--tmpfs", o.Dest, "--remount-ro", o.Dest)
		}
		if len(o.Source) > maxArgumentLen || len(o.Dest) > maxArgumentLen {
			return nil, nil, mountplan.Invalid(o.Why, "", "a path of %d bytes is more than bubblewrap takes (%d)", max(len(o.Source), len(o.Dest)), maxArgumentLen)
		}
	}
	for _, bound := range [...]struct {
		needs, bears int
		of           string
	}{
		{len(ops), maxMounts, "mounts"},
		{len(files), maxInputs, "descriptors"},
		{len(words), maxArguments - reserved, "option words"},
	} {
		if bound.needs > bound.bears {
			dests := make([]string, len(ops))
			for i, o := range ops {
				dests[i] = o.Dest
			}
			dir, n := hostpath.MostIn(dests)
			return nil, nil, mountplan.Invalid("engine", `use engine = "native", or hide or bind whole directories in place of many paths in them`,
				"the sandbox needs %d %s, and bubblewrap takes at most %d; %d of its %d mounts lie in %s", bound.needs, bound.of, bound.bears, n, len(ops), hostpath.Quote(dir))
		}
	}
	return words, files, nil
}

func octal(perms uint32) string { return fmt.Sprintf("%04o", perms) }
