package holder

import (
	"github.com/sbxhost/sbxhost/internal/frame"
)

const wireVersion = 12

const (
	msgHello    byte = 'H' // holder -> client, first: pair
	msgOverlay  byte = 'L' // client -> holder: overlayOf
	msgOwn      byte = 'O' // starter -> Alone: ownOf; Alone -> starter: ownMade
	msgTree     byte = 'T' // client -> holder: planned; nobody answers
	msgRun      byte = 'R' // client -> holder: run; with files
	msgDone     byte = 'D' // holder -> client: pair; of a run, with the pidfd
	msgFailed   byte = 'E' // holder -> client: refusal
	msgExit     byte = 'X' // holder -> client: pair
	msgRestored byte = 'V' // holder -> client: restored
	msgSame     byte = 'S' // client -> holder: pair; holder -> client: pair
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

func encodePlan(ops []Op) []byte { return frame.Payload((*steps)(&ops)) }

func decodePlan(b []byte) (ops []Op, err error) { return ops, frame.Decode(b, (*steps)(&ops)) }

// A pair is a request and another number.
type pair struct {
	request uint32
	value   uint32 // in hello the version, in done the pid or 0, in exit the wait status, in same the request of the run, and in its answer 1 or 0
}

func (m *pair) Fields(c *frame.Codec) {
	frame.Int(c, &m.request)
	frame.Int(c, &m.value)
}

// A planned is a tree that a run is about to ask for.
type planned struct{ plan string }

func (m *planned) Fields(c *frame.Codec) { c.Text(&m.plan) }

// A run is the request to start an init.
type run struct {
	request uint32
	umask   uint32 // of the init, and so of the command
	plan    string // encoded: equal plans are equal strings
	argv    []string

	namespaces uint32   // of its sandbox
	overlays   []string // the directories of which it has overlays of its own
	files      uint32   // the number of files that come with the message
	grouped    bool     // the last of them is the directory of a control group, and not for the init
	first      bool     // it is pid 1 of namespaces that others join
	ahead      bool     // it waits for a command, and the tree is checked when there is one
	joins      uint32   // the request of that one, or 0
}

func (m *run) Fields(c *frame.Codec) {
	frame.Int(c, &m.request)
	frame.Int(c, &m.umask)
	frame.Int(c, &m.namespaces)
	frame.Int(c, &m.files)
	c.Flag(&m.grouped)
	c.Flag(&m.first)
	c.Flag(&m.ahead)
	frame.Int(c, &m.joins)
	c.Text(&m.plan)
	c.Texts(&m.argv)
	c.Texts(&m.overlays)
	if len(m.argv) == 0 || len(m.argv) > maxWords || m.umask > 0o777 || m.namespaces&^sandboxNamespaces != 0 || m.files > frame.MaxFiles || m.grouped && m.files == 0 || m.first && m.joins != 0 {
		c.Fail("no such run")
	}
}

// A refusal says why a request failed, or why a holder could not begin.
type refusal struct {
	request uint32
	why     MountError
}

func (m *refusal) Fields(c *frame.Codec) {
	frame.Int(c, &m.request)
	m.why.Fields(c)
}

func (e *MountError) Fields(c *frame.Codec) {
	frame.Int(c, &e.Index)
	frame.Int(c, &e.Errno)
	c.Text(&e.Call)
	c.Text(&e.Reason)
	c.Flag(&e.Shared)
}

// An overlayOf asks for the overlay of a directory or, if each command has its own, whether one is
// possible.
type overlayOf struct {
	request uint32
	source  string
	own     bool
}

func (m *overlayOf) Fields(c *frame.Codec) {
	frame.Int(c, &m.request)
	c.Text(&m.source)
	c.Flag(&m.own)
	absolute(c, m.source)
}

func absolute(c *frame.Codec, path string) {
	if len(path) == 0 || path[0] != '/' {
		c.Fail("no absolute path")
	}
}

// An ownOf asks for the overlays of directories, with their layers in the session's directory
// scratch. node is the device and inode that scratch must have: somebody can have put another
// directory there.
type ownOf struct {
	scratch, node string
	sources       []string
}

func (m *ownOf) Fields(c *frame.Codec) {
	c.Text(&m.scratch)
	c.Text(&m.node)
	c.Texts(&m.sources)
	absolute(c, m.scratch)
	for _, source := range m.sources {
		absolute(c, source)
	}
}

// An ownMade lists the overlays that could not be made. The request of a refusal is the index of
// its source in the list.
type ownMade struct{ refused []refusal }

func (m *ownMade) Fields(c *frame.Codec) {
	frame.List(c, &m.refused, 21, func(r *refusal) { r.Fields(c) })
}

// A restored names a mount that the holder put back after the host had removed it, or says why the
// holder could not.
type restored struct {
	request uint32 // of the first of the inits that see it
	dest    string
	reason  string
}

func (m *restored) Fields(c *frame.Codec) {
	frame.Int(c, &m.request)
	c.Text(&m.dest)
	c.Text(&m.reason)
}
