package probes

import (
	"slices"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// unhidden grants what was hidden.
func unhidden(_ *scene.Scene, t *scene.Trial) {
	t.Spec.Table = slices.DeleteFunc(t.Spec.Table, func(e shared.Entry) bool { return e.Access == shared.Hidden })
}

// unprotected takes the entry away that a trial has added last.
func unprotected(_ *scene.Scene, t *scene.Trial) { t.Spec.Table = t.Spec.Table[:len(t.Spec.Table)-1] }

// first has an earlier command do something.
func first(act ...string) func(*scene.Scene, *scene.Trial) {
	return func(s *scene.Scene, t *scene.Trial) { t.First = [][]string{s.Fill(act...)} }
}

// hiddenProbes are about paths that a command must neither read nor write.
func hiddenProbes() []Probe {
	read := func(paths ...string) words { return append(words{"read-canary", "{canary}"}, paths...) }
	env, keys, deep := words{"{ws}/.env"}, words{"{ws}/keys"}, words{"{ws}/dir/sub/secret"}
	// dir is hidden, and dir/sub shown in it.
	dir, sub := words{"{ws}/dir"}, words{"{ws}/dir/sub"}
	odd := "ws/-a\n\"b'\\ \xff"
	overVarLib := func(s *scene.Scene, t *scene.Trial) {
		inHostView(s, t)
		t.Add(shared.Entry{Path: "/var/lib", Access: shared.Private, Why: "a home"})
	}
	return []Probe{
		{ID: "read.40", Title: "a hidden file", hide: env, act: read("{ws}/.env"), grant: unhidden},
		{ID: "read.41", Title: "a file in a hidden directory", hide: keys, act: read("{ws}/keys/key"), grant: unhidden},
		{ID: "read.42", Title: "the names in a hidden directory", hide: keys, act: words{"list", "{ws}/keys"}, grant: unhidden},
		{ID: "read.43", Title: "a hidden file through a symlink", prepare: linkTo(".env", "ws/alias"), hide: env, act: read("{ws}/alias"), grant: unhidden},
		{ID: "read.44", Title: "what a hidden symlink leads to", prepare: linkTo("keys/key", "ws/alias"), hide: words{"{ws}/alias"}, act: read("{ws}/keys/key"), grant: unhidden},
		{ID: "read.45", Title: "a hidden file through ..", hide: env, act: read("{ws}/sub/../.env", "{ws}/./sub/deep/../../.env"), grant: unhidden},
		{ID: "read.46", Title: "a hidden file through /proc/self", Only: OnlyLinux, hide: env,
			act: read("/proc/self/root{ws}/.env", "/proc/self/cwd/.env", "/proc/thread-self/cwd/.env"), grant: unhidden},
		{ID: "read.47", Title: "a hidden file by another name, renamed", hide: env, act: words{"rename-read", "{ws}/.env", "{ws}/moved", "{ws}/moved"}, grant: unhidden},
		{ID: "read.48", Title: "a hidden file by another name, linked", hide: env, act: words{"link-read", "{ws}/.env", "{ws}/linked"}, grant: unhidden},
		{ID: "read.49", Title: "a hidden file after its directory was renamed", hide: deep,
			act: words{"rename-read", "{ws}/dir/sub", "{ws}/dir/other", "{ws}/dir/other/secret"}, grant: unhidden},
		{ID: "read.50", Title: "the same from the next command", hide: deep, trial: first("rename", "{ws}/dir/sub", "{ws}/dir/other"),
			act: read("{ws}/dir/other/secret"), grant: unhidden},
		{ID: "read.51", Title: "the same after an ancestor was renamed", hide: deep, trial: first("rename", "{ws}/dir", "{ws}/away"),
			act: read("{ws}/away/sub/secret"), grant: unhidden},
		{ID: "read.52", Title: "an ancestor of what is hidden renamed and put back otherwise", hide: deep,
			act: words{"swap-parent", "{ws}/dir", "{ws}/dir/sub/secret"}, grant: unhidden},
		{ID: "read.53", Title: "a hidden file after what hides it was unmounted", Only: OnlyLinux, hide: env,
			act: words{"unmount-read", "{ws}/.env", "{canary}"}, grant: unhidden},
		{ID: "read.54", Title: "the same in a nested user namespace", Only: OnlyLinux, hide: env,
			act: words{"nested-unmount-read", "{ws}/.env", "{canary}"}, Maybe: true},
		{ID: "read.55", Title: "beneath what is hidden by a bind that is not recursive", Only: OnlyLinux, hide: env,
			act: words{"nested-bind-read", "{ws}", ".env", "{canary}"}, Maybe: true},
		{ID: "read.56", Title: "a hidden directory whose mode is changed", hide: keys, act: words{"chmod-read", "{ws}/keys", "{ws}/keys/key"}, grant: unhidden},
		{ID: "read.57", Title: "a hidden file in a read-only mount", prepare: planting("shown/.env"), show: words{"{shown}"}, hide: words{"{shown}/.env"},
			act: read("{shown}/.env"), grant: unhidden},
		{ID: "read.58", Title: "a file beside what is shown in a hidden directory", prepare: planting("ws/dir/beside"), show: sub, hide: dir,
			act: read("{ws}/dir/beside"), grant: unhidden},
		{ID: "read.59", Title: "hidden paths with odd names", prepare: planting(odd + "/x"), hide: words{"{dir}/" + odd},
			act: read("{dir}/" + odd + "/x"), Refusal: true, grant: unhidden},
		{ID: "read.60", Title: "a hidden fifo", prepare: func(s *scene.Scene) error { return syscall.Mkfifo(s.Path("ws/fifo"), 0o600) },
			hide: words{"{ws}/fifo"}, act: words{"is-fifo", "{ws}/fifo"}, grant: unhidden},
		{ID: "read.61", Title: "three hundred hidden files, one among them", prepare: func(s *scene.Scene) error {
			for i := range 300 {
				if err := s.Write("ws/many/"+digits(i), s.Canary); err != nil {
					return err
				}
			}
			return nil
		}, trial: func(s *scene.Scene, t *scene.Trial) {
			for i := range 300 {
				t.Hide(s.Path("ws/many", digits(i)))
			}
		}, act: read("{ws}/many/" + digits(150)), grant: unhidden},
		{ID: "read.62", Title: "beside what is hidden everything can be read", Works: true, hide: env, act: words{"read", "{ws}/file"}},
		{ID: "read.63", Title: "what is shown in a hidden directory can be read", Works: true, show: sub, hide: dir, act: words{"read", "{ws}/dir/sub/secret"}},
		{ID: "read.64", Title: "what is hidden in what is shown in a hidden directory", show: sub, hide: append(dir, deep...),
			act: read("{ws}/dir/sub/secret"), grant: unhidden},
		{ID: "read.67", Title: "a hidden file, from a terminal", hide: env, act: read("{ws}/.env"), trial: func(_ *scene.Scene, t *scene.Trial) { t.TTY = true }, grant: unhidden},
		{ID: "read.68", Title: "a hidden file, from a script", hide: env, act: read("{ws}/.env"), trial: func(_ *scene.Scene, t *scene.Trial) { t.Script = true }, grant: unhidden},
		{ID: "read.69", Title: "a hidden file, with the host's network", hide: env, act: read("{ws}/.env"), trial: onHostNetwork, grant: unhidden},
		{ID: "read.70", Title: "a hidden file, in the host's view", hide: env, act: read("{ws}/.env"), trial: inHostView, grant: unhidden},
		{ID: "read.71", Title: "a hidden file, in a session", prepare: makeDir("session"), hide: env, act: read("{ws}/.env"), trial: func(s *scene.Scene, t *scene.Trial) {
			t.Spec.Session = shared.Session{ID: "enginetest-hidden-" + s.Kit.Random, Dir: s.Path("session")}
		}, grant: unhidden},
		{ID: "read.65", Title: "the names in a directory of the host's view that memory covers", Only: OnlyLinux, trial: overVarLib,
			act: words{"list", "/var/lib"}, grant: unprotected},
		{ID: "read.66", Title: "what is shown in a directory of the host's view that memory covers can be read", Only: OnlyLinux, Works: true, trial: func(s *scene.Scene, t *scene.Trial) {
			overVarLib(s, t)
			t.Add(shared.Entry{Path: "/var/lib/sbxhost-probe/shown", Source: s.Shown, Access: shared.ReadOnly})
		}, act: words{"read", "/var/lib/sbxhost-probe/shown/file"}},
	}
}
