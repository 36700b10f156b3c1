package enginetest

import (
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// unhidden grants what was hidden.
func unhidden(_ *scene, t *trial) {
	t.Spec.Table = slices.DeleteFunc(t.Spec.Table, func(e shared.Entry) bool { return e.Access == shared.Hidden })
}

// unprotected takes the entry away that a trial has added last.
func unprotected(_ *scene, t *trial) { t.Spec.Table = t.Spec.Table[:len(t.Spec.Table)-1] }

// first has an earlier command do something.
func first(act ...string) func(*scene, *trial) {
	return func(s *scene, t *trial) { t.first = [][]string{s.fill(act...)} }
}

// hiddenProbes are about paths that a command must neither read nor write.
func hiddenProbes() []probe {
	read := func(paths ...string) words { return append(words{"read-canary", "{canary}"}, paths...) }
	env, keys, deep := words{"{ws}/.env"}, words{"{ws}/keys"}, words{"{ws}/dir/sub/secret"}
	// dir is hidden, and dir/sub shown in it.
	dir, sub := words{"{ws}/dir"}, words{"{ws}/dir/sub"}
	odd := "ws/-a\n\"b'\\ \xff"
	overVarLib := func(s *scene, t *trial) {
		inHostView(s, t)
		t.add(shared.Entry{Path: "/var/lib", Access: shared.Private, Why: "a home"})
	}
	return []probe{
		{id: "read.40", title: "a hidden file", hide: env, act: read("{ws}/.env"), grant: unhidden},
		{id: "read.41", title: "a file in a hidden directory", hide: keys, act: read("{ws}/keys/key"), grant: unhidden},
		{id: "read.42", title: "the names in a hidden directory", hide: keys, act: words{"list", "{ws}/keys"}, grant: unhidden},
		{id: "read.43", title: "a hidden file through a symlink", prepare: linkTo(".env", "ws/alias"), hide: env, act: read("{ws}/alias"), grant: unhidden},
		{id: "read.44", title: "what a hidden symlink leads to", prepare: linkTo("keys/key", "ws/alias"), hide: words{"{ws}/alias"}, act: read("{ws}/keys/key"), grant: unhidden},
		{id: "read.45", title: "a hidden file through ..", hide: env, act: read("{ws}/sub/../.env", "{ws}/./sub/deep/../../.env"), grant: unhidden},
		{id: "read.46", title: "a hidden file through /proc/self", only: onlyLinux, hide: env,
			act: read("/proc/self/root{ws}/.env", "/proc/self/cwd/.env", "/proc/thread-self/cwd/.env"), grant: unhidden},
		{id: "read.47", title: "a hidden file by another name, renamed", hide: env, act: words{"rename-read", "{ws}/.env", "{ws}/moved", "{ws}/moved"}, grant: unhidden},
		{id: "read.48", title: "a hidden file by another name, linked", hide: env, act: words{"link-read", "{ws}/.env", "{ws}/linked"}, grant: unhidden},
		{id: "read.49", title: "a hidden file after its directory was renamed", hide: deep,
			act: words{"rename-read", "{ws}/dir/sub", "{ws}/dir/other", "{ws}/dir/other/secret"}, grant: unhidden},
		{id: "read.50", title: "the same from the next command", hide: deep, trial: first("rename", "{ws}/dir/sub", "{ws}/dir/other"),
			act: read("{ws}/dir/other/secret"), grant: unhidden},
		{id: "read.51", title: "the same after an ancestor was renamed", hide: deep, trial: first("rename", "{ws}/dir", "{ws}/away"),
			act: read("{ws}/away/sub/secret"), grant: unhidden},
		{id: "read.52", title: "an ancestor of what is hidden renamed and put back otherwise", hide: deep,
			act: words{"swap-parent", "{ws}/dir", "{ws}/dir/sub/secret"}, grant: unhidden},
		{id: "read.53", title: "a hidden file after what hides it was unmounted", only: onlyLinux, hide: env,
			act: words{"unmount-read", "{ws}/.env", "{canary}"}, grant: unhidden},
		{id: "read.54", title: "the same in a nested user namespace", only: onlyLinux, hide: env,
			act: words{"nested-unmount-read", "{ws}/.env", "{canary}"}, maybe: true},
		{id: "read.55", title: "beneath what is hidden by a bind that is not recursive", only: onlyLinux, hide: env,
			act: words{"nested-bind-read", "{ws}", ".env", "{canary}"}, maybe: true},
		{id: "read.56", title: "a hidden directory whose mode is changed", hide: keys, act: words{"chmod-read", "{ws}/keys", "{ws}/keys/key"}, grant: unhidden},
		{id: "read.57", title: "a hidden file in a read-only mount", prepare: planting("shown/.env"), show: words{"{shown}"}, hide: words{"{shown}/.env"},
			act: read("{shown}/.env"), grant: unhidden},
		{id: "read.58", title: "a file beside what is shown in a hidden directory", prepare: planting("ws/dir/beside"), show: sub, hide: dir,
			act: read("{ws}/dir/beside"), grant: unhidden},
		{id: "read.59", title: "hidden paths with odd names", prepare: planting(odd + "/x"), hide: words{"{dir}/" + odd},
			act: read("{dir}/" + odd + "/x"), refusal: true, grant: unhidden},
		{id: "read.60", title: "a hidden fifo", prepare: func(s *scene) error { return syscall.Mkfifo(s.path("ws/fifo"), 0o600) },
			hide: words{"{ws}/fifo"}, act: words{"is-fifo", "{ws}/fifo"}, grant: unhidden},
		{id: "read.61", title: "three hundred hidden files, one among them", prepare: func(s *scene) error {
			for i := range 300 {
				if err := s.write("ws/many/"+digits(i), s.canary); err != nil {
					return err
				}
			}
			return nil
		}, trial: func(s *scene, t *trial) {
			for i := range 300 {
				t.hide(s.path("ws/many", digits(i)))
			}
		}, act: read("{ws}/many/" + digits(150)), grant: unhidden},
		{id: "read.62", title: "beside what is hidden everything can be read", works: true, hide: env, act: words{"read", "{ws}/file"}},
		{id: "read.63", title: "what is shown in a hidden directory can be read", works: true, show: sub, hide: dir, act: words{"read", "{ws}/dir/sub/secret"}},
		{id: "read.64", title: "what is hidden in what is shown in a hidden directory", show: sub, hide: append(dir, deep...),
			act: read("{ws}/dir/sub/secret"), grant: unhidden},
		{id: "read.67", title: "a hidden file, from a terminal", hide: env, act: read("{ws}/.env"), trial: func(_ *scene, t *trial) { t.tty = true }, grant: unhidden},
		{id: "read.68", title: "a hidden file, from a script", hide: env, act: read("{ws}/.env"), trial: func(_ *scene, t *trial) { t.script = true }, grant: unhidden},
		{id: "read.69", title: "a hidden file, with the host's network", hide: env, act: read("{ws}/.env"), trial: onHostNetwork, grant: unhidden},
		{id: "read.70", title: "a hidden file, in the host's view", hide: env, act: read("{ws}/.env"), trial: inHostView, grant: unhidden},
		{id: "read.71", title: "a hidden file, in a session", prepare: makeDir("session"), hide: env, act: read("{ws}/.env"), trial: func(s *scene, t *trial) {
			t.Spec.Session = shared.Session{ID: "enginetest-hidden-" + s.suite.random, Dir: s.path("session")}
		}, grant: unhidden},
		{id: "read.65", title: "the names in a directory of the host's view that memory covers", only: onlyLinux, trial: overVarLib,
			act: words{"list", "/var/lib"}, grant: unprotected},
		{id: "read.66", title: "what is shown in a directory of the host's view that memory covers can be read", only: onlyLinux, works: true, trial: func(s *scene, t *trial) {
			overVarLib(s, t)
			t.add(shared.Entry{Path: "/var/lib/sbxhost-probe/shown", Source: s.shown, Access: shared.ReadOnly})
		}, act: words{"read", "/var/lib/sbxhost-probe/shown/file"}},
	}
}
