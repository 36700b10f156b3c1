package probes

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/sbxhost/sbxhost/shared"
	"github.com/sbxhost/sbxhost/shared/enginetest/internal/scene"
)

// macosProbes are about what macOS has besides files, processes and sockets. They do not apply to
// other systems.
func macosProbes() []Probe {
	tool := func(id, title string, argv ...string) Probe {
		return Probe{ID: id, Title: title, Only: OnlyDarwin, Maybe: true, trial: func(s *scene.Scene, t *scene.Trial) { t.Do("run", s.Fill(argv...)...) }}
	}
	return []Probe{
		tool("macos.01", "Apple events to other programs", "/usr/bin/osascript", "-e", `tell application "Finder" to get name of startup disk`),
		tool("macos.02", "starting programs by Launch Services", "/usr/bin/open", "-g", "-j", "-a", "TextEdit", "--args", "-sbxhost-probe"),
		tool("macos.03", "launchd", "/bin/launchctl", "print", "gui/"+strconv.Itoa(os.Getuid())),
		tool("macos.04", "the pasteboard", "/usr/bin/pbpaste"),
		tool("macos.05", "keychains", "/usr/bin/security", "show-keychain-info"),
		tool("macos.06", "the preferences of the user", "/usr/bin/defaults", "read", "NSGlobalDomain"),
		tool("macos.07", "processes of others", "/bin/ps", "-p", "1", "-o", "command="),
		tool("macos.08", "settings of the kernel", "/usr/sbin/sysctl", "kern.bootargs"),
		tool("macos.09", "the screen", "/usr/sbin/screencapture", "-x", "{ws}/screen.png"),
		{ID: "macos.10", Title: "the user's Library", Only: OnlyDarwin, Maybe: true, act: "read {home}/Library {home}/Library/Preferences {home}/Library/Keychains"},
		planted("macos.11", "temporary files by their resolved path", OnlyDarwin, "/private/tmp", nil),
		{ID: "macos.12", Title: "the host's data volume by its own path", Only: OnlyDarwin, Maybe: true, act: "read /System/Volumes/Data/Users"},
		tool("macos.13", "a sandbox of its own inside", "/usr/bin/sandbox-exec", "-p", "(version 1)(allow default)", "/usr/bin/true"),
		{ID: "macos.14", Title: "agents of launchd and preferences in a home that is shown writable", Only: OnlyDarwin,
			prepare: all(planting("home/Library/LaunchAgents/file"), planting("home/Library/Preferences/file")), trial: changes(inHome, showing("{dir}/home", shared.ReadWrite)),
			act: "create-remove {dir}/home/Library/LaunchAgents/sbxhost.probe.plist {dir}/home/Library/Preferences/sbxhost.probe.plist"},
		{ID: "macos.15", Title: "typing into a terminal that is standard input alone (TIOCSTI)", Only: OnlyDarwin, prepare: func(s *scene.Scene) { _, s.Foreign = s.Terminal() }, trial: func(s *scene.Scene, t *scene.Trial) { t.Stdin = s.Foreign }, act: "tiocsti", grant: func(_ *scene.Scene, t *scene.Trial) { t.Stdin, t.TTY = nil, true }},
		{ID: "macos.16", Title: "a file that no mount shows, on the data volume", Only: OnlyDarwin, act: "read-canary {canary} /System/Volumes/Data{outside}/secret",
			grant: showing("{outside}", shared.ReadOnly)},
		{ID: "macos.17", Title: "the same by its number", Only: OnlyDarwin, prepare: func(s *scene.Scene) {
			var st syscall.Stat_t
			s.Must(syscall.Stat(s.Path("outside/secret"), &st))
			s.Values["volume"] = fmt.Sprintf("/.vol/%d/%d", st.Dev, st.Ino)
		}, act: "read-canary {canary} {volume}", grant: showing("{outside}", shared.ReadOnly), Maybe: true},
		{ID: "macos.18", Title: "a hidden file in another case", Only: OnlyDarwin, Maybe: true, hide: "{ws}/.env", act: "read-canary {canary} {ws}/.ENV", grant: unhidden},
	}
}
