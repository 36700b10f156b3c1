package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// rawLaunch is a bubblewrap command line without anything of sbxhost.
type rawLaunch struct {
	argv  []string // the launcher and its options
	files []string // whose contents it reads, from descriptor 3 on
}

// rawFromPlan takes from an engine's plan what bubblewrap alone needs: the
// same options, without the init, with descriptor numbers in the place of the
// files that the plan names, and with paths for what is bound by descriptor.
// filter is a file with the filter of system calls; where it is empty, the
// launch has neither that nor what belongs to it.
func rawFromPlan(argv []string, filter string) (rawLaunch, error) {
	end := slices.Index(argv, "<init>") - 1
	if end < 1 || argv[end] != "--" {
		return rawLaunch{}, errors.New("the plan's command line has no -- <init>")
	}
	var raw rawLaunch
	file := func(name string) string {
		raw.files = append(raw.files, name)
		return strconv.Itoa(2 + len(raw.files))
	}
	for i, word := range argv[:end] {
		name, planned := strings.CutPrefix(word, "<")
		if planned {
			name, planned = strings.CutSuffix(name, ">")
		}
		option := ""
		if i > 0 {
			option = argv[i-1]
		}
		switch {
		case word == "--add-seccomp-fd", word == "--disable-userns":
			if filter == "" {
				continue
			}
		case option == "--add-seccomp-fd":
			if filter == "" {
				continue
			}
			word = file(filter)
		case word == "--bind-fd", word == "--ro-bind-fd":
			word = strings.TrimSuffix(word, "-fd")
		case planned && (option == "--bind-fd" || option == "--ro-bind-fd"):
			word = name
		case planned && option == "--file":
			word = file(name)
		case planned:
			return rawLaunch{}, fmt.Errorf("the plan's word %d, %s, stands for what this benchmark does not know", i, word)
		}
		raw.argv = append(raw.argv, word)
	}
	return raw, nil
}

// command gives the command line that runs argv inside, and the files to
// close after its start.
func (r rawLaunch) command(ctx context.Context, argv ...string) (_ *exec.Cmd, files []*os.File, err error) {
	cmd := exec.CommandContext(ctx, r.argv[0], slices.Concat(r.argv[1:], []string{"--"}, argv)...)
	cmd.Env = []string{}
	for _, name := range r.files {
		f, err := os.Open(name)
		if err != nil {
			closeAll(files)
			return nil, nil, err
		}
		files = append(files, f)
	}
	cmd.ExtraFiles = files
	return cmd, files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
