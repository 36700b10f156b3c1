package sandboxinit

import "strconv"

// ownArg is argv[1] of a process that gives directories to somebody.
const ownArg = "sbxhost-init-own"

// An Owner is who [OwnArgv] gives directories to.
type Owner struct {
	UID, GID uint32 // as the init sees them
	// Anybody says that the numbers are not known: everybody may write there.
	Anybody bool
}

// OwnArgv is what follows the executable's name on the command line of a process
// that gives directories inside to owner and ends, with 0 if it could. A
// daemon's new volume belongs to root, and an image need not have a program that
// changes that. It takes CAP_CHOWN, and to be root for Anybody. What lies in the
// directories is left as it is.
func OwnArgv(owner Owner, dirs ...string) []string {
	return append([]string{ownArg, owner.String()}, dirs...)
}

const anybody = "anybody"

// String is how it stands on a command line.
func (o Owner) String() string {
	if o.Anybody {
		return anybody
	}
	return strconv.FormatUint(uint64(o.UID), 10) + ":" + strconv.FormatUint(uint64(o.GID), 10)
}
