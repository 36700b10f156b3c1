package docker

import (
	"context"
	"net"
)

// socketOwner gives the uid of who listens at a unix socket, nil where that user
// has no number here.
func socketOwner(ctx context.Context, path string) *uint32 {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil
	}
	defer conn.Close()
	cred, err := peerCred(conn.(*net.UnixConn))
	if err != nil || cred.Uid == overflowUID {
		return nil
	}
	return &cred.Uid
}
