package serve

import (
	"encoding/hex"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// A Challenge makes a client prove that it may look into this process. Nobody sees from outside
// whether a process is in a Landlock domain, but the kernel lets one in a domain look only into
// processes of the same domain or of one inside it.
type Challenge struct {
	fd     int
	secret string
}

// NewChallenge opens a descriptor with a secret name.
func NewChallenge() (*Challenge, error) {
	var random [16]byte
	if _, err := unix.Getrandom(random[:], 0); err != nil {
		return nil, os.NewSyscallError("getrandom", err)
	}
	fd, err := unix.MemfdCreate(hex.EncodeToString(random[:]), unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	secret, err := secretOf("/proc/self", fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return &Challenge{fd, secret}, nil
}

// Number is the payload of KindWelcome: the client must send the name of this descriptor.
func (c *Challenge) Number() *Number {
	n := Number(c.fd)
	return &n
}

// Unmet says why a client that sent this Hello may be confined more than the server.
func (c *Challenge) Unmet(hello *Hello) string {
	if hello.Secret != c.secret {
		return "it cannot look into the server, as if Landlock confined it"
	}
	return ""
}

// Close closes the descriptor.
func (c *Challenge) Close() { unix.Close(c.fd) }

func secretOf(proc string, fd int) (string, error) {
	return os.Readlink(proc + "/fd/" + strconv.Itoa(fd))
}
