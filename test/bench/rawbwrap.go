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
// files that the plan names.
func rawFromPlan(argv []string) (rawLaunch, error) {
	end := slices.Index(argv, "<init>") - 1
	if end < 1 || argv[end] != "--" {
		return rawLaunch{}, errors.New("the plan's command line has no -- <init>")
	}
	var raw rawLaunch
	for i, word := range argv[:end] {
		if strings.HasPrefix(word, "<") && strings.HasSuffix(word, ">") {
			if argv[i-1] != "--file" {
				return rawLaunch{}, fmt.Errorf("the plan's word %d, %s, stands for what this benchmark does not know", i, word)
			}
			raw.files = append(raw.files, word[1:len(word)-1])
			word = strconv.Itoa(2 + len(raw.files))
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
