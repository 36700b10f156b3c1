package enginetest

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
)

// macosProbes are about what macOS has besides files, processes and sockets.
// Everywhere else they do not apply.
func macosProbes() []probe {
	tool := func(id, title string, argv ...string) probe {
		return probe{id: id, title: title, only: onlyDarwin, maybe: true, trial: doing("run", argv...)}
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
		{id: "macos.09", title: "the screen", only: onlyDarwin, maybe: true, trial: func(s *scene, t *trial) {
			t.do("run", "/usr/sbin/screencapture", "-x", s.path("ws/screen.png"))
		}},
		{id: "macos.10", title: "the user's Library", only: onlyDarwin, maybe: true, trial: func(s *scene, t *trial) {
			t.do("read", s.suite.home+"/Library", s.suite.home+"/Library/Preferences", s.suite.home+"/Library/Keychains")
		}},
		{id: "macos.11", title: "temporary files by their resolved path", only: onlyDarwin, prepare: plantIn(in("/private/tmp")), trial: readPlanted},
		{id: "macos.12", title: "the host's data volume by its own path", only: onlyDarwin, maybe: true, trial: doing("read", "/System/Volumes/Data/Users")},
		{id: "macos.13", title: "a sandbox of its own inside", only: onlyDarwin, maybe: true,
			trial: doing("run", "/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "/usr/bin/true")},
		{id: "macos.14", title: "agents of launchd and preferences in a home that is shown writable", only: onlyDarwin, prepare: func(s *scene) error {
			for _, dir := range []string{"LaunchAgents", "Preferences"} {
				if err := os.MkdirAll(s.path("home/Library", dir), 0o700); err != nil {
					return err
				}
			}
			return nil
		}, trial: func(s *scene, t *trial) {
			t.Spec.Home = s.path("home")
			t.show(s.path("home"), shared.ReadWrite)
			t.do("create-remove", s.path("home/Library/LaunchAgents/sbxhost.probe.plist"), s.path("home/Library/Preferences/sbxhost.probe.plist"))
		}},
		{id: "macos.15", title: "typing into a terminal that is standard input alone (TIOCSTI)", only: onlyDarwin, prepare: func(s *scene) error {
			terminal, err := openTerminal()
			if err != nil {
				return &absentError{err.Error()}
			}
			s.terminal = terminal
			s.cleanup(terminal.close)
			return nil
		}, trial: func(s *scene, t *trial) {
			if s.terminal != nil {
				t.stdin = s.terminal.slave
			}
			t.do("tiocsti")
		}, control: controlGranted, grant: func(_ *scene, t *trial) { t.stdin, t.tty = nil, true }},
		{id: "macos.16", title: "a file that no mount shows, on the data volume", only: onlyDarwin, trial: func(s *scene, t *trial) {
			t.do("read-canary", s.canary, "/System/Volumes/Data"+s.path("outside/secret"))
		}, control: controlGranted, grant: showOutside},
		{id: "macos.17", title: "the same by its number", only: onlyDarwin, prepare: func(s *scene) error {
			var st syscall.Stat_t
			if err := syscall.Stat(s.path("outside/secret"), &st); err != nil {
				return err
			}
			s.values["volume"] = fmt.Sprintf("/.vol/%d/%d", st.Dev, st.Ino)
			return nil
		}, trial: func(s *scene, t *trial) { t.do("read-canary", s.canary, s.values["volume"]) },
			control: controlGranted, grant: showOutside, maybe: true},
		{id: "macos.18", title: "a hidden file in another case", only: onlyDarwin, maybe: true, trial: hiding(func(s *scene, t *trial) {
			t.do("read-canary", s.canary, s.path("ws/.ENV"))
		}), control: controlGranted, grant: unhidden},
	}
}
