package seatbelt

import (
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/sbxhost/sbxhost/shared/enginetest"
)

// A kitAttempt is one operation that an action of the conformance kit asks the kernel
// for, by its name in profiles, and what it is about.
type kitAttempt struct {
	Operation string // as profiles name it: "file-read-data"
	Path      string // of a file or a unix socket, as it is spelled
	NoFollow  bool   // a link at the end of the path is meant itself
	Host      string // of the internet protocols: "localhost" or an address
	Port      string // likewise, a number
	Service   string // of mach-lookup
	Sysctl    string // of sysctl*: its name
	Target    string // of signal and process-info*: "others"
}

// waysOf are what a command of the kit asks for, with the steps before it. It
// succeeds if the kernel allows every attempt of any of them.
func waysOf(c *enginetest.MacCommand) [][]kitAttempt {
	ways := [][]kitAttempt{{}}
	for _, act := range c.Acts {
		var longer [][]kitAttempt
		for _, before := range ways {
			for _, way := range macWays(act) {
				longer = append(longer, slices.Concat(before, way))
			}
		}
		ways = longer
	}
	return ways
}

// foreignTerminal stands for a terminal whose number is known at the time only.
const foreignTerminal = "/dev/ttys005"

// onFile is operations on one path.
func onFile(path string, operations ...string) (way []kitAttempt) {
	for _, o := range operations {
		way = append(way, kitAttempt{Operation: o, Path: path})
	}
	return way
}

// macTools are what programs of the system ask for besides being executed. Any
// of it alone is a way out, so that each must be denied.
var macTools = map[string][]kitAttempt{
	"/usr/bin/osascript": {
		{Operation: "appleevent-send"}, {Operation: "mach-lookup", Service: "com.apple.coreservices.appleevents"},
	},
	"/usr/bin/open": {
		{Operation: "lsopen"}, {Operation: "mach-lookup", Service: "com.apple.coreservices.launchservicesd"},
		{Operation: "mach-lookup", Service: "com.apple.coreservices.quarantine-resolver"}, {Operation: "mach-lookup", Service: "com.apple.lsd.open"},
	},
	"/bin/launchctl": {
		{Operation: "job-creation"}, {Operation: "mach-bootstrap"}, {Operation: "mach-register", Service: "sbxhost.probe"},
		{Operation: "mach-lookup", Service: "com.apple.xpc.launchd.user"},
	},
	"/usr/bin/pbpaste": {
		{Operation: "mach-lookup", Service: "com.apple.pasteboard.1"},
		{Operation: "mach-lookup", Service: "com.apple.coreservices.uauseractivitypasteboardclient.xpc"},
	},
	"/usr/bin/security": {
		{Operation: "mach-lookup", Service: "com.apple.SecurityServer"}, {Operation: "mach-lookup", Service: "com.apple.securityd.xpc"},
		{Operation: "mach-lookup", Service: "com.apple.secd"}, {Operation: "authorization-right-obtain"},
	},
	"/usr/bin/defaults": {
		{Operation: "user-preference-read"}, {Operation: "user-preference-write"},
		{Operation: "mach-lookup", Service: "com.apple.cfprefsd.daemon"}, {Operation: "mach-lookup", Service: "com.apple.cfprefsd.agent"},
	},
	"/bin/ps": {
		{Operation: "process-info*", Target: "others"}, {Operation: "sysctl-read", Sysctl: "kern.procargs2"},
	},
	"/usr/sbin/sysctl": {{Operation: "sysctl-read", Sysctl: "kern.bootargs"}},
	"/usr/sbin/screencapture": {
		{Operation: "mach-lookup", Service: "com.apple.windowserver.active"}, {Operation: "mach-lookup", Service: "com.apple.screencapture.interactive"},
	},
	// To execute it is all that counts: a second profile adds to the first, and can
	// but for a hole in the kernel not lift it.
	"/usr/bin/sandbox-exec": nil,
}

// macWays are what an action asks the kernel of macOS for; nil says that it is
// not known.
func macWays(act []string) [][]kitAttempt {
	if len(act) == 0 || slices.ContainsFunc(act, func(word string) bool { return strings.HasPrefix(word, "$home") || strings.HasSuffix(word, "_PROXY") }) {
		return nil // what the engine decides
	}
	args := act[1:]
	one := func(steps ...[]kitAttempt) [][]kitAttempt {
		var way []kitAttempt
		for _, s := range steps {
			way = append(way, s...)
		}
		return [][]kitAttempt{way}
	}
	each := func(paths []string, operations ...string) (ways [][]kitAttempt) {
		for _, path := range paths {
			ways = append(ways, onFile(path, operations...))
		}
		return ways
	}
	create := func(path string) []kitAttempt { return onFile(path, "file-write-create", "file-write-data") }
	read := func(path string) []kitAttempt { return onFile(path, "file-read-data") }
	mode := func(text string) (operations []string) {
		if n, err := strconv.ParseUint(text, 8, 32); err == nil && n&0o6000 != 0 {
			return []string{"file-write-setugid"}
		}
		return nil
	}
	switch act[0] {
	case "nothing":
		return [][]kitAttempt{{}}
	case "read":
		return each(args, "file-read-data")
	case "read-canary":
		return each(args[1:], "file-read-data")
	case "stat":
		return one(onFile(args[0], "file-read-metadata"))
	case "list":
		return one(read(args[0]))
	case "create":
		return each(args, "file-write-create", "file-write-data")
	case "create-remove":
		return each(args, "file-write-create", "file-write-data", "file-write-unlink")
	case "append":
		return each(args, "file-write-data")
	case "unlink":
		return one(onFile(args[0], "file-write-unlink"))
	case "rename":
		return one(onFile(args[0], "file-write-unlink"), onFile(args[1], "file-write-create"))
	case "link":
		return one(onFile(args[0], "file-link"), onFile(args[1], "file-write-create"))
	case "mkdir", "mkfifo":
		return one(onFile(args[0], "file-write-create"))
	case "truncate":
		return one(onFile(args[0], "file-write-data"))
	case "times":
		return one(onFile(args[0], "file-write-times"))
	case "chmod":
		return one(onFile(args[0], append(mode(args[1]), "file-write-mode")...))
	case "create-mode":
		return one(create(args[0]), onFile(args[0], mode(args[1])...))
	case "is-fifo":
		return [][]kitAttempt{{{Operation: "file-read-metadata", Path: args[0], NoFollow: true}}}
	case "fill":
		return one(create(filepath.Join(args[0], "filler")))
	case "tiocsti":
		return one(onFile(foreignTerminal, "file-ioctl"))
	case "dial":
		return macDial(args[0], args[1])
	case "route":
		var ways [][]kitAttempt
		for _, a := range args {
			ways = append(ways, macDial("udp", a)...)
		}
		return ways
	case "interfaces": // getifaddrs(3)
		return [][]kitAttempt{{{Operation: "sysctl-read", Sysctl: "net.routetable.0.0.3.0"}}}
	case "own-server":
		if args[0] == "unix" {
			return one(onFile(args[1], "network-bind", "network-inbound", "network-outbound"))
		}
		return [][]kitAttempt{{
			{Operation: "network-bind", Host: "localhost", Port: "40000"}, {Operation: "network-inbound", Host: "localhost", Port: "40000"},
			{Operation: "network-outbound", Host: "localhost", Port: "40000"},
		}}
	case "serve":
		_, port, _ := strings.Cut(args[0], ":")
		return [][]kitAttempt{{{Operation: "network-bind", Host: "localhost", Port: port}, {Operation: "network-inbound", Host: "localhost", Port: port}}}
	case "run":
		return macRun(args[0])
	}
	return nil
}

// macRun is to execute a program and to get one of the things that it is for.
func macRun(program string) (ways [][]kitAttempt) {
	needs, known := macTools[program]
	if !known {
		return nil
	}
	for _, need := range needs {
		ways = append(ways, append(onFile(program, "process-exec"), need))
	}
	if len(needs) == 0 {
		ways = append(ways, onFile(program, "process-exec"))
	}
	return ways
}

func macDial(network, address string) [][]kitAttempt {
	if network == "unix" {
		return [][]kitAttempt{onFile(address, "network-outbound")}
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		host = "localhost"
	}
	return [][]kitAttempt{{{Operation: "network-outbound", Host: host, Port: port}}}
}
