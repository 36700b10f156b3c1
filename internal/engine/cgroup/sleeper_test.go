package cgroup

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

const sleeperArg = "cgroup-test-sleeper"

// sleeper lives until its stdin ends. With a number after its name it first
// starts another of its kind, with one less.
func sleeper() {
	n := 0
	if len(os.Args) > 2 {
		fmt.Sscan(os.Args[2], &n)
	}
	if n > 0 {
		child := exec.Command("/proc/self/exe", sleeperArg, fmt.Sprint(n-1))
		child.Stdin, child.Stdout, child.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	} else {
		fmt.Println("ready")
	}
	io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
