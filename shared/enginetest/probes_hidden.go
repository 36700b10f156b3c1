package enginetest

import (
	"os"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// hiding hides the file .env of the workspace and then does something.
func hiding(then func(*scene, *trial)) func(*scene, *trial) {
	return func(s *scene, t *trial) {
		t.hide(s.path("ws/.env"))
		then(s, t)
	}
}

// hidingDir hides the directory keys, which holds a file key.
func hidingDir(then func(*scene, *trial)) func(*scene, *trial) {
	return func(s *scene, t *trial) {
		t.hide(s.path("ws/keys"))
		then(s, t)
	}
}

// hidingDeep hides dir/sub/secret, whose parents are not hidden.
func hidingDeep(then func(*scene, *trial)) func(*scene, *trial) {
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

func unhidden(_ *scene, t *trial) { t.unhide() }

// hiddenProbes are about paths that a command must neither read nor write.
func hiddenProbes() []probe {
	read := func(elements ...string) func(*scene, *trial) { return readOutside(elements...) }
	return []probe{
		{id: "read.40", title: "a hidden file", trial: hiding(read("ws/.env")), control: controlGranted, grant: unhidden},
		{id: "read.41", title: "a file in a hidden directory", trial: hidingDir(read("ws/keys/key")), control: controlGranted, grant: unhidden},
		{id: "read.42", title: "the names in a hidden directory", trial: hidingDir(func(s *scene, t *trial) { t.do("list", s.path("ws/keys")) }),
			control: controlGranted, grant: unhidden},
		{id: "read.43", title: "a hidden file through a symlink", prepare: func(s *scene) error { return os.Symlink(".env", s.path("ws/alias")) },
			trial: hiding(read("ws/alias")), control: controlGranted, grant: unhidden},
		{id: "read.44", title: "what a hidden symlink leads to", prepare: func(s *scene) error { return os.Symlink("keys/key", s.path("ws/alias")) },
			trial: func(s *scene, t *trial) {
				t.hide(s.path("ws/alias"))
				read("ws/keys/key")(s, t)
			}, control: controlGranted, grant: unhidden},
		{id: "read.45", title: "a hidden file through ..", trial: hiding(func(s *scene, t *trial) {
			t.do("read-canary", s.canary, s.ws+"/sub/../.env", s.ws+"/./sub/deep/../../.env")
		}), control: controlGranted, grant: unhidden},
		{id: "read.46", title: "a hidden file through /proc/self", only: onlyLinux, trial: hiding(func(s *scene, t *trial) {
			t.do("read-canary", s.canary, "/proc/self/root"+s.path("ws/.env"), "/proc/self/cwd/.env", "/proc/thread-self/cwd/.env")
		}), control: controlGranted, grant: unhidden},
		{id: "read.47", title: "a hidden file by another name, renamed", trial: hiding(func(s *scene, t *trial) {
			t.do("rename-read", s.path("ws/.env"), s.path("ws/moved"), s.path("ws/moved"))
		}), control: controlGranted, grant: unhidden},
		{id: "read.48", title: "a hidden file by another name, linked", trial: hiding(func(s *scene, t *trial) {
			t.do("link-read", s.path("ws/.env"), s.path("ws/linked"))
		}), control: controlGranted, grant: unhidden},
		{id: "read.49", title: "a hidden file after its directory was renamed", trial: hidingDeep(func(s *scene, t *trial) {
			t.do("rename-read", s.path("ws/dir/sub"), s.path("ws/dir/other"), s.path("ws/dir/other/secret"))
		}), control: controlGranted, grant: unhidden},
		{id: "read.50", title: "the same from the next command", trial: hidingDeep(func(s *scene, t *trial) {
			t.first = [][]string{{"rename", s.path("ws/dir/sub"), s.path("ws/dir/other")}}
			t.do("read-canary", s.canary, s.path("ws/dir/other/secret"))
		}), control: controlGranted, grant: unhidden},
		{id: "read.51", title: "the same after an ancestor was renamed", trial: hidingDeep(func(s *scene, t *trial) {
			t.first = [][]string{{"rename", s.path("ws/dir"), s.path("ws/away")}}
			t.do("read-canary", s.canary, s.path("ws/away/sub/secret"))
		}), control: controlGranted, grant: unhidden},
		{id: "read.52", title: "an ancestor of what is hidden renamed and put back otherwise", trial: hidingDeep(func(s *scene, t *trial) {
			t.do("swap-parent", s.path("ws/dir"), s.path("ws/dir/sub/secret"))
		}), control: controlGranted, grant: unhidden},
		{id: "read.53", title: "a hidden file after what hides it was unmounted", only: onlyLinux, trial: hiding(func(s *scene, t *trial) {
			t.do("unmount-read", s.path("ws/.env"), s.canary)
		}), control: controlGranted, grant: unhidden},
		{id: "read.54", title: "the same in a nested user namespace", only: onlyLinux, trial: hiding(func(s *scene, t *trial) {
			t.do("nested-unmount-read", s.path("ws/.env"), s.canary)
		}), control: controlOutside, maybe: true},
		{id: "read.55", title: "beneath what is hidden by a bind that is not recursive", only: onlyLinux, trial: hiding(func(s *scene, t *trial) {
			t.do("nested-bind-read", s.ws, ".env", s.canary)
		}), control: controlOutside, maybe: true},
		{id: "read.56", title: "a hidden directory whose mode is changed", trial: hidingDir(func(s *scene, t *trial) {
			t.do("chmod-read", s.path("ws/keys"), s.path("ws/keys/key"))
		}), control: controlGranted, grant: unhidden},
		{id: "read.57", title: "a hidden file in a read-only mount", prepare: func(s *scene) error { return s.write("shown/.env", s.canary) },
			trial: func(s *scene, t *trial) {
				t.show(s.shown, shared.ReadOnly)
				t.hide(s.path("shown/.env"))
				t.do("read-canary", s.canary, s.path("shown/.env"))
			}, control: controlGranted, grant: unhidden},
		{id: "read.58", title: "a file beside what is shown in a hidden directory", prepare: beside, trial: func(s *scene, t *trial) {
			shownInHidden(s, t)
			t.do("read-canary", s.canary, s.path("ws/dir/beside"))
		}, control: controlGranted, grant: unhidden},
		{id: "read.59", title: "hidden paths with odd names", prepare: func(s *scene) error { return s.write("ws/-a\n\"b'\\ \xff/x", s.canary) },
			trial: func(s *scene, t *trial) {
				t.hide(s.path("ws/-a\n\"b'\\ \xff"))
				t.do("read-canary", s.canary, s.path("ws/-a\n\"b'\\ \xff/x"))
			}, refusal: true, control: controlGranted, grant: unhidden},
		{id: "read.60", title: "a hidden fifo", prepare: func(s *scene) error { return syscall.Mkfifo(s.path("ws/fifo"), 0o600) },
			trial: func(s *scene, t *trial) {
				t.hide(s.path("ws/fifo"))
				t.do("is-fifo", s.path("ws/fifo"))
			}, control: controlGranted, grant: unhidden},
		{id: "read.61", title: "three hundred hidden files, one among them", prepare: func(s *scene) error {
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
		}, control: controlGranted, grant: unhidden},
		{id: "read.62", title: "beside what is hidden everything can be read", works: true, trial: hiding(func(s *scene, t *trial) {
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
		}, control: controlGranted, grant: unhidden},
		{id: "read.65", title: "the names in a directory of the host's view that memory covers", only: onlyLinux, trial: func(_ *scene, t *trial) {
			t.Spec.Filesystem = shared.FilesystemHost
			t.Spec.Table = append(t.Spec.Table, shared.Entry{Path: "/var/lib", Access: shared.Private, Why: "a home"})
			t.do("list", "/var/lib")
		}, control: controlGranted, grant: unprotected},
		{id: "read.66", title: "what is shown in a directory of the host's view that memory covers can be read", only: onlyLinux, works: true, trial: func(s *scene, t *trial) {
			t.Spec.Filesystem = shared.FilesystemHost
			t.Spec.Table = append(t.Spec.Table, shared.Entry{Path: "/var/lib", Access: shared.Private, Why: "a home"},
				shared.Entry{Path: "/var/lib/sbxhost-probe/shown", Source: s.shown, Access: shared.ReadOnly, Why: "bind_paths[0]"})
			t.do("read", "/var/lib/sbxhost-probe/shown/file")
		}, control: controlNone},
	}
}
