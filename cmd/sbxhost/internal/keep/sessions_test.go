package keep

import (
	"testing"
	"time"
)

func TestSessionsText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	list := []listedSession{
		{Name: "a", Workspace: "/home/u/p", Size: 1 << 29, LastUsed: now.Add(-90 * time.Minute), UID: 4242424},
		{Name: "longer", Workspace: "/x\x1b", Size: 12, LastUsed: now, InUse: true, Users: []int{7, 9}, UID: 4242424},
		{Name: "c", Size: 3 << 10, LastUsed: now.Add(-72 * time.Hour), InUse: true, UID: 4242425},
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
