package seatbelt

// brokenRules are the rules that it does not keep, likewise.
var brokenRules = map[string]string{
	"command.19": "sandbox-exec executes the command, and its message about a missing interpreter is the command's output",
}

// departures are the cases of the kit that this engine does not pass, and why:
// what doc.go tells. The model finds those that a profile decides, and a Mac
// must find all of them.
var departures = map[string]string{
	"read.32":  "the control needs a /tmp of the command's own, and there is TMPDIR instead",
	"read.48":  "the control needs hard links, of which a command can make none",
	"write.07": "the control needs hard links, of which a command can make none",
	"write.41": "/tmp is the machine's and closed; there is TMPDIR instead",
	"net.06":   "names and addresses of interfaces can be listed, which language runtimes do as they start",
	"net.12":   "the control needs a socket of the host, which no mount opens",
	"net.13":   "the control needs a socket of the host, which no mount opens",
	"net.14":   "the control needs a socket of the host, which no mount opens",
	"net.15":   "the control needs a socket of the host, which no mount opens",
	"net.18":   "macOS has no loopback but the host's",
	"net.19":   "/tmp is closed; sockets work in TMPDIR",
	"life.01":  "a process that has left the command's group outlives it, still confined",
	"life.02":  "a process that has left the command's group outlives it, still confined",
	"life.03":  "a process that has left the command's group outlives it, still confined",
	"life.04":  "a process that has left the command's group outlives it, still confined",
	"life.05":  "a process that has left the command's group outlives it, still confined",
	"life.06":  "a process that has left the command's group outlives it, still confined",
	"life.07":  "a process that has left the command's group outlives it, still confined",
}
