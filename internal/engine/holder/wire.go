package holder

import (
	"github.com/sbxhost/sbxhost/internal/frame"
)

const wireVersion = 16

// A request comes with one end of a new connection, over which the holder answers. The connection of
// an init lasts as long as the init, and takes further requests about it.
const (
	msgOverlay  byte = 'L' // request: overlayRequest
	msgOwn      byte = 'O' // starter -> Alone: ownRequest; Alone -> starter: ownAnswer
	msgTree     byte = 'T' // client -> holder: Plan, for which a run is about to ask; nobody answers
	msgRun      byte = 'R' // request, or one over the connection of the init that it joins: run; with files
	msgSame     byte = 'S' // request over the connection of an init: number
	msgDone     byte = 'D' // answer: number; of a run, with the pidfd. Also holder -> client, first
	msgFailed   byte = 'E' // answer: MountError; also in place of the first
	msgExit     byte = 'X' // holder -> client, last over the connection of an init: number
	msgRestored byte = 'V' // holder -> client, over the connection of an init: restoredMount
)

const (
	maxPayload = 8 << 20
	maxOps     = 50_000
	maxWords   = 10_000
)

// sandboxNamespaces are those that a sandbox can have for itself: CLONE_NEWNS, NEWCGROUP, NEWUTS,
// NEWIPC, NEWPID and NEWNET.
const sandboxNamespaces = 1<<17 | 1<<25 | 1<<26 | 1<<27 | 1<<29 | 1<<30

// steps are the steps of a plan.
type steps []Op

func (s *steps) Fields(c *frame.Codec) {
	frame.List(c, (*[]Op)(s), 21, func(o *Op) {
		frame.Byte(c, &o.Kind)
		c.Text(&o.Source)
		c.Text(&o.Dest)
		frame.Int(c, &o.Perms)
		c.Long(&o.Size)
		if o.Kind >= kinds {
			c.Fail("no such step")
		}
	})
	if len(*s) > maxOps {
		c.Fail("too many steps")
	}
}

// A number is the version in the first message, the pid or 0 in done, and the wait status in exit.
type number struct{ value uint32 }

func (m *number) Fields(c *frame.Codec) { frame.Int(c, &m.value) }

// A run is the request to start an init.
type run struct {
	plan Plan
	argv []string

	namespaces uint32   // of its sandbox
	overlays   []string // the directories of which it has overlays of its own
	files      uint32   // the number of files that come with the message, after the connection
	grouped    bool     // the last of them is the directory of a control group, and not for the init
	first      bool     // it is pid 1 of namespaces that others join
	ahead      bool     // it waits for a command, and msgSame checks the tree then
}

func (m *run) Fields(c *frame.Codec) {
	frame.Int(c, &m.namespaces)
	frame.Int(c, &m.files)
	c.Flag(&m.grouped)
	c.Flag(&m.first)
	c.Flag(&m.ahead)
	m.plan.Fields(c)
	c.Texts(&m.argv)
	c.Texts(&m.overlays)
	if len(m.argv) == 0 || len(m.argv) > maxWords || m.namespaces&^sandboxNamespaces != 0 || m.files >= frame.MaxFiles || m.grouped && m.files == 0 {
		c.Fail("no such run")
	}
}

func (e *MountError) Fields(c *frame.Codec) {
	frame.Int(c, &e.Index)
	frame.Int(c, &e.Errno)
	c.Text(&e.Call)
	c.Text(&e.Reason)
	c.Flag(&e.Shared)
}

// An overlayRequest asks for the overlay of a directory or, if each command has its own, whether one is
// possible.
type overlayRequest struct {
	source string
	own    bool
}

func (m *overlayRequest) Fields(c *frame.Codec) {
	c.Text(&m.source)
	c.Flag(&m.own)
	absolute(c, m.source)
}

func absolute(c *frame.Codec, path string) {
	if len(path) == 0 || path[0] != '/' {
		c.Fail("no absolute path")
	}
}

// An ownRequest asks for the overlays of directories, with their layers in the session's directory
// scratch. node is the device and inode that scratch must have: somebody can have put another
// directory there.
type ownRequest struct {
	scratch, node string
	sources       []string
}

func (m *ownRequest) Fields(c *frame.Codec) {
	c.Text(&m.scratch)
	c.Text(&m.node)
	c.Texts(&m.sources)
	absolute(c, m.scratch)
	for _, source := range m.sources {
		absolute(c, source)
	}
}

// An ownAnswer lists the overlays that could not be made. The Index is that of the source in the list.
type ownAnswer struct{ refused []MountError }

func (m *ownAnswer) Fields(c *frame.Codec) {
	frame.List(c, &m.refused, 17, func(e *MountError) { e.Fields(c) })
}

// A restoredMount names a mount that the holder put back after the host had removed it, or says why the
// holder could not.
type restoredMount struct{ dest, reason string }

func (m *restoredMount) Fields(c *frame.Codec) {
	c.Text(&m.dest)
	c.Text(&m.reason)
}
