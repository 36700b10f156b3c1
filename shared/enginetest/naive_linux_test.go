package enginetest_test

import (
	"os"
	"os/exec"
	"slices"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/cmdengine"
)

// naive is bubblewrap as it is commonly written in scripts and tools:
//
//	bwrap --unshare-all --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --bind WS WS
//
// with what a definition grants added in its own words. It claims what its
// authors believe it to hold.
func naive() shared.Engine { return naiveWith(slices.Clone) }

// naiveWith has other words.
func naiveWith(change func([]string) []string) shared.Engine {
	return cmdengine.New(cmdengine.Config{
		Info: shared.Info{
			Name: "naive", Version: "0", Doc: "bubblewrap as it is commonly written",
			Features: shared.Features{
				shared.FeatureNetworkNone, shared.FeatureNetworkHost, shared.FeatureFilesystemMinimal, shared.FeatureFilesystemHost,
				shared.FeatureRemap, shared.FeatureTmpfs, shared.FeatureHidden, shared.FeatureTTY,
				shared.FeatureNested, shared.FeatureHomePrivate, shared.FeatureTempPrivate, shared.FeatureProcessesHidden, shared.FeatureKernelFiltered, shared.FeatureMetadata,
			},
		},
		Launch: func(spec *shared.Spec, cmd *shared.Command) (*exec.Cmd, error) {
			words := change([]string{"bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"})
			if spec.Network.Mode == shared.NetworkHost {
				words = append(words, "--share-net")
			}
			if spec.Home != "" {
				words = append(words, "--tmpfs", spec.Home)
			}
			for _, m := range spec.Table {
				switch m.Access {
				case shared.ReadOnly:
					words = append(words, "--ro-bind", m.Source, m.Path)
				case shared.ReadWrite:
					words = append(words, "--bind", m.Source, m.Path)
				case shared.Private:
					words = append(words, "--tmpfs", m.Path)
				case shared.Hidden:
					if info, err := os.Stat(m.Path); err == nil && info.IsDir() {
						words = append(words, "--tmpfs", m.Path)
					} else {
						words = append(words, "--ro-bind", "/dev/null", m.Path)
					}
				}
			}
			words = append(words, "--chdir", cmd.Dir, "--")
			return &exec.Cmd{Path: "/usr/bin/bwrap", Args: slices.Concat(words, cmd.Args), Env: cmd.Env, Dir: "/"}, nil
		},
	})
}
