package docker

import (
	"debug/elf"
	"fmt"

	"github.com/sbxhost/sbxhost/shared"
)

// checkInit refuses an init that needs a loader: an image may lack one, and an image's loader
// decides what it does.
func checkInit(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return &shared.Error{Kind: shared.ErrUnavailable, Message: "the init: " + err.Error()}
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return &shared.Error{Kind: shared.ErrUnavailable,
				Message: fmt.Sprintf("the init for containers, %q, is linked dynamically", path),
				Hint:    "build it with CGO_ENABLED=0, or install sbxhost-init beside it"}
		}
	}
	return nil
}
