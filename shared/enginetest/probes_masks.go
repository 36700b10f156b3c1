package enginetest

import (
	"os"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// masking hides the file .env of the workspace and then does something.
func masking(then func(*scene, *trial)) func(*scene, *trial) {
	return func(s *scene, t *trial) {
		t.hide(s.path("ws/.env"))
		then(s, t)
	}
}

// maskingDir hides the directory keys, which holds a file key.
func maskingDir(then func(*scene, *trial)) func(*scene, *trial) {
	return func(s *scene, t *trial) {
		t.hide(s.path("ws/keys"))
		then(s, t)
	}
}

// maskingDeep hides dir/sub/secret, whose parents are not hidden.
func maskingDeep(then func(*scene, *trial)) func(*scene, *trial) {
	return func(s *scene, t *trial) {
		t.hide(s.path("ws/dir/sub/secret"))
		then(s, t)
	}
}

// shownInHidden hides dir, and shows dir/sub in it.
func shownInHidden(s *scene, t *trial) {
	t.show(s.path("ws/dir/sub"), shared.ReadOnly)
	t.hide(s.path("ws/dir"))
}

func beside(s *scene) error { return s.write("ws/dir/beside", s.canary) }

func unmasked(_ *scene, t *trial) { t.unhide() }

// maskProbes are about paths that a command must neither read nor write.
func maskProbes() []probe {
	read := func(elements ...string) func(*scene, *trial) { return readOutside(elements...) }
	return []probe{
		{id: "read.40", title: "a masked file", trial: masking(read("ws/.env")), control: controlGranted, grant: unmasked},
		{id: "read.41", title: "a file in a masked directory", trial: maskingDir(read("ws/keys/key")), control: controlGranted, grant: unmasked},
		{id: "read.42", title: "the names in a masked directory", trial: maskingDir(func(s *scene, t *trial) { t.do("list", s.path("ws/keys")) }),
			control: controlGranted, grant: unmasked},
		{id: "read.43", title: "a masked file through a symlink", prepare: func(s *scene) error { return os.Symlink(".env", s.path("ws/alias")) },
			trial: masking(read("ws/alias")), control: controlGranted, grant: unmasked},
		{id: "read.44", title: "what a masked symlink leads to", prepare: func(s *scene) error { return os.Symlink("keys/key", s.path("ws/alias")) },
			trial: func(s *scene, t *trial) {
				t.hide(s.path("ws/alias"))
				read("ws/keys/key")(s, t)
			}, control: controlGranted, grant: unmasked},
		{id: "read.45", title: "a masked file through ..", trial: masking(func(s *scene, t *trial) {
			t.do("read-canary", s.canary, s.ws+"/sub/../.env", s.ws+"/./sub/deep/../../.env")
		}), control: controlGranted, grant: unmasked},
		{id: "read.46", title: "a masked file through /proc/self", only: onlyLinux, trial: masking(func(s *scene, t *trial) {
			t.do("read-canary", s.canary, "/proc/self/root"+s.path("ws/.env"), "/proc/self/cwd/.env", "/proc/thread-self/cwd/.env")
		}), control: controlGranted, grant: unmasked},
		{id: "read.47", title: "a masked file by another name, renamed", trial: masking(func(s *scene, t *trial) {
			t.do("rename-read", s.path("ws/.env"), s.path("ws/moved"), s.path("ws/moved"))
		}), control: controlGranted, grant: unmasked},
		{id: "read.48", title: "a masked file by another name, linked", trial: masking(func(s *scene, t *trial) {
			t.do("link-read", s.path("ws/.env"), s.path("ws/linked"))
		}), control: controlGranted, grant: unmasked},
		{id: "read.49", title: "a masked file after its directory was renamed", trial: maskingDeep(func(s *scene, t *trial) {
			t.do("rename-read", s.path("ws/dir/sub"), s.path("ws/dir/other"), s.path("ws/dir/other/secret"))
		}), control: controlGranted, grant: unmasked},
		{id: "read.50", title: "the same from the next command", trial: maskingDeep(func(s *scene, t *trial) {
			t.first = [][]string{{"rename", s.path("ws/dir/sub"), s.path("ws/dir/other")}}
			t.do("read-canary", s.canary, s.path("ws/dir/other/secret"))
		}), control: controlGranted, grant: unmasked},
		{id: "read.51", title: "the same after an ancestor was renamed", trial: maskingDeep(func(s *scene, t *trial) {
			t.first = [][]string{{"rename", s.path("ws/dir"), s.path("ws/away")}}
			t.do("read-canary", s.canary, s.path("ws/away/sub/secret"))
		}), control: controlGranted, grant: unmasked},
		{id: "read.52", title: "an ancestor of a mask renamed and put back otherwise", trial: maskingDeep(func(s *scene, t *trial) {
			t.do("swap-parent", s.path("ws/dir"), s.path("ws/dir/sub/secret"))
		}), control: controlGranted, grant: unmasked},
		{id: "read.53", title: "a masked file after the mask was unmounted", only: onlyLinux, trial: masking(func(s *scene, t *trial) {
			t.do("unmount-read", s.path("ws/.env"), s.canary)
		}), control: controlGranted, grant: unmasked},
		{id: "read.54", title: "the same in a nested user namespace", only: onlyLinux, trial: masking(func(s *scene, t *trial) {
			t.do("nested-unmount-read", s.path("ws/.env"), s.canary)
		}), control: controlOutside, maybe: true},
		{id: "read.55", title: "beneath a mask by a bind that is not recursive", only: onlyLinux, trial: masking(func(s *scene, t *trial) {
			t.do("nested-bind-read", s.ws, ".env", s.canary)
		}), control: controlOutside, maybe: true},
		{id: "read.56", title: "a masked directory whose mode is changed", trial: maskingDir(func(s *scene, t *trial) {
			t.do("chmod-read", s.path("ws/keys"), s.path("ws/keys/key"))
		}), control: controlGranted, grant: unmasked},
		{id: "read.57", title: "a masked file in a read-only mount", prepare: func(s *scene) error { return s.write("shown/.env", s.canary) },
			trial: func(s *scene, t *trial) {
				t.show(s.shown, shared.ReadOnly)
				t.hide(s.path("shown/.env"))
				t.do("read-canary", s.canary, s.path("shown/.env"))
			}, control: controlGranted, grant: unmasked},
		{id: "read.58", title: "a file beside what is shown in a hidden directory", prepare: beside, trial: func(s *scene, t *trial) {
			shownInHidden(s, t)
			t.do("read-canary", s.canary, s.path("ws/dir/beside"))
		}, control: controlGranted, grant: unmasked},
		{id: "read.59", title: "masks with odd names", prepare: func(s *scene) error { return s.write("ws/-a\n\"b'\\ \xff/x", s.canary) },
			trial: func(s *scene, t *trial) {
				t.hide(s.path("ws/-a\n\"b'\\ \xff"))
				t.do("read-canary", s.canary, s.path("ws/-a\n\"b'\\ \xff/x"))
			}, refusal: true, control: controlGranted, grant: unmasked},
		{id: "read.60", title: "a masked fifo", prepare: func(s *scene) error { return syscall.Mkfifo(s.path("ws/fifo"), 0o600) },
			trial: func(s *scene, t *trial) {
				t.hide(s.path("ws/fifo"))
				t.do("is-fifo", s.path("ws/fifo"))
			}, control: controlGranted, grant: unmasked},
		{id: "read.61", title: "three hundred masked files, one among them", prepare: func(s *scene) error {
			for i := range 300 {
				if err := s.write("ws/many/"+number(i), s.canary); err != nil {
					return err
				}
			}
			return nil
		}, trial: func(s *scene, t *trial) {
			for i := range 300 {
				t.hide(s.path("ws/many", number(i)))
			}
			t.do("read-canary", s.canary, s.path("ws/many", number(150)))
		}, control: controlGranted, grant: unmasked},
		{id: "read.62", title: "beside a mask everything can be read", works: true, trial: masking(func(s *scene, t *trial) {
			t.do("read", s.path("ws/file"))
		}), control: controlNone},
		{id: "read.63", title: "what is shown in a hidden directory can be read", works: true, trial: func(s *scene, t *trial) {
			shownInHidden(s, t)
			t.do("read", s.path("ws/dir/sub/secret"))
		}, control: controlNone},
		{id: "read.64", title: "what is hidden in what is shown in a hidden directory", trial: func(s *scene, t *trial) {
			shownInHidden(s, t)
			t.hide(s.path("ws/dir/sub/secret"))
			t.do("read-canary", s.canary, s.path("ws/dir/sub/secret"))
		}, control: controlGranted, grant: unmasked},
	}
}
