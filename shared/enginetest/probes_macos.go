package enginetest

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/creack/pty"

	"github.com/sbxhost/sbxhost/shared"
)

// macosProbes are about what macOS has besides files, processes and sockets.
// Everywhere else they do not apply.
func macosProbes() []probe {
	tool := func(id, title string, argv ...string) probe {
		return probe{id: id, title: title, only: onlyDarwin, maybe: true, act: append(words{"run"}, argv...)}
	}
	return []probe{
		tool("macos.01", "Apple events to other programs", "/usr/bin/osascript", "-e", `tell application "Finder" to get name of startup disk`),
		tool("macos.02", "starting programs by Launch Services", "/usr/bin/open", "-g", "-j", "-a", "TextEdit", "--args", "-sbxhost-probe"),
		tool("macos.03", "launchd", "/bin/launchctl", "print", "gui/"+strconv.Itoa(os.Getuid())),
		tool("macos.04", "the pasteboard", "/usr/bin/pbpaste"),
		tool("macos.05", "keychains", "/usr/bin/security", "show-keychain-info"),
		tool("macos.06", "the preferences of the user", "/usr/bin/defaults", "read", "NSGlobalDomain"),
		tool("macos.07", "processes of others", "/bin/ps", "-p", "1", "-o", "command="),
		tool("macos.08", "settings of the kernel", "/usr/sbin/sysctl", "kern.bootargs"),
		tool("macos.09", "the screen", "/usr/sbin/screencapture", "-x", "{ws}/screen.png"),
		{id: "macos.10", title: "the user's Library", only: onlyDarwin, maybe: true, act: words{"read", "{home}/Library", "{home}/Library/Preferences", "{home}/Library/Keychains"}},
		{id: "macos.11", title: "temporary files by their resolved path", only: onlyDarwin, prepare: plantIn("/private/tmp"), act: words{"read-canary", "{canary}", "{planted}"}},
		{id: "macos.12", title: "the host's data volume by its own path", only: onlyDarwin, maybe: true, act: words{"read", "/System/Volumes/Data/Users"}},
		tool("macos.13", "a sandbox of its own inside", "/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "/usr/bin/true"),
		{id: "macos.14", title: "agents of launchd and preferences in a home that is shown writable", only: onlyDarwin, prepare: func(s *scene) error {
			return errors.Join(os.MkdirAll(s.path("home/Library/LaunchAgents"), 0o700), os.MkdirAll(s.path("home/Library/Preferences"), 0o700))
		}, trial: func(s *scene, t *trial) {
			t.Spec.Home = s.path("home")
			t.show(s.path("home"), shared.ReadWrite)
		}, act: words{"create-remove", "{dir}/home/Library/LaunchAgents/sbxhost.probe.plist", "{dir}/home/Library/Preferences/sbxhost.probe.plist"}},
		{id: "macos.15", title: "typing into a terminal that is standard input alone (TIOCSTI)", only: onlyDarwin, prepare: func(s *scene) error {
			master, slave, err := pty.Open()
			if err != nil {
				return &absentError{err.Error()}
			}
			s.foreign = slave
			s.cleanup(func() { master.Close(); slave.Close() })
			return nil
		}, trial: func(s *scene, t *trial) { t.stdin = s.foreign }, act: words{"tiocsti"}, grant: func(_ *scene, t *trial) { t.stdin, t.tty = nil, true }},
		{id: "macos.16", title: "a file that no mount shows, on the data volume", only: onlyDarwin, act: words{"read-canary", "{canary}", "/System/Volumes/Data{outside}/secret"},
			grant: showing("{outside}", shared.ReadOnly)},
		{id: "macos.17", title: "the same by its number", only: onlyDarwin, prepare: func(s *scene) error {
			var st syscall.Stat_t
			if err := syscall.Stat(s.path("outside/secret"), &st); err != nil {
				return err
			}
			s.values["volume"] = fmt.Sprintf("/.vol/%d/%d", st.Dev, st.Ino)
			return nil
		}, act: words{"read-canary", "{canary}", "{volume}"}, grant: showing("{outside}", shared.ReadOnly), maybe: true},
		{id: "macos.18", title: "a hidden file in another case", only: onlyDarwin, maybe: true, hide: words{"{ws}/.env"}, act: words{"read-canary", "{canary}", "{ws}/.ENV"}, grant: unhidden},
	}
}
