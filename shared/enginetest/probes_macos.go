package enginetest

// macosProbes are about what macOS has besides files, processes and sockets.
// Everywhere else they do not apply.
func macosProbes() []probe {
	tool := func(id, title string, argv ...string) probe {
		return probe{id: id, title: title, only: onlyDarwin, maybe: true, trial: doing("run", argv...)}
	}
	return []probe{
		tool("macos.01", "Apple events to other programs", "/usr/bin/osascript", "-e", `tell application "Finder" to get name of startup disk`),
		tool("macos.02", "starting programs by Launch Services", "/usr/bin/open", "-g", "-j", "-a", "TextEdit", "--args", "-sbxhost-probe"),
		tool("macos.03", "launchd", "/bin/launchctl", "print", "gui/501"),
		tool("macos.04", "the pasteboard", "/usr/bin/pbpaste"),
		tool("macos.05", "keychains", "/usr/bin/security", "list-keychains"),
		tool("macos.06", "the preferences of the user", "/usr/bin/defaults", "read", "NSGlobalDomain"),
		tool("macos.07", "processes of others", "/bin/ps", "-p", "1", "-o", "command="),
		tool("macos.08", "settings of the kernel", "/usr/sbin/sysctl", "kern.bootargs"),
		tool("macos.09", "the screen", "/usr/sbin/screencapture", "-x", "/tmp/sbxhost-probe.png"),
		{id: "macos.10", title: "the user's Library", only: onlyDarwin, maybe: true, trial: doing("list-home", "Library")},
		{id: "macos.11", title: "temporary files by their resolved path", only: onlyDarwin, prepare: plantIn(in("/private/tmp")), trial: readPlanted},
		{id: "macos.12", title: "the host's data volume by its own path", only: onlyDarwin, maybe: true, trial: doing("read", "/System/Volumes/Data/Users")},
	}
}
