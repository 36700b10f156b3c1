package keep

import (
	"testing"
	"time"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/sessiondir"
)

func TestSessionsText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	session := func(info sessiondir.Info, size int64, uid uint32) listedSession {
		return listedSession{SessionInfo: host.SessionInfo{Info: info, Size: size, UID: uid}}
	}
	list := []listedSession{
		session(sessiondir.Info{Name: "a", Workspace: "/home/u/p", LastUsed: now.Add(-90 * time.Minute)}, 1<<29, 4242424),
		session(sessiondir.Info{Name: "longer", Workspace: "/x\x1b", LastUsed: now, InUse: true, Users: []int{7, 9}}, 12, 4242424),
		session(sessiondir.Info{Name: "c", LastUsed: now.Add(-72 * time.Hour), InUse: true}, 3<<10, 4242425),
	}
	for _, test := range []struct {
		list []listedSession
		want string
	}{
		{list[:2], `NAME    SIZE       LAST USED   IN USE BY     WORKSPACE
a       512.0 MiB  1 hour ago  nobody        /home/u/p
longer  12 B       just now    process 7, 9  "/x\x1b"
`},
		{list, `NAME    SIZE       LAST USED   IN USE BY     WORKSPACE  USER
a       512.0 MiB  1 hour ago  nobody        /home/u/p  4242424
longer  12 B       just now    process 7, 9  "/x\x1b"   4242424
c       3.0 KiB    3 days ago  a process     ""         4242425
`},
	} {
		if got := sessionsText(test.list, now); got != test.want {
			t.Errorf("got\n%swant\n%s", got, test.want)
		}
	}
}
