package mountplan

import (
	"testing"

	"github.com/sbxhost/sbxhost/shared"
)

// A plan holds while all that it looked at is as it was: a path that comes to exist, goes,
// changes its kind or leads elsewhere makes another.
func TestDraw(t *testing.T) {
	t.Parallel()
	tree := fakeTree{"/usr": "/", "/bin": "->usr/bin", "/usr/bin": "/", "/ws": "/", "/ws/a": "/", "/ws/a/.env": "", "/ws/l": "->a"}
	facts := gather(tree, 1000, 0)
	table := &Table{Facts: facts, Support: &Support{}, Spec: &shared.Spec{Table: append([]shared.Entry{mount(shared.ReadOnly, "/ws", "/ws")}, hide("/ws/a/.env", "/ws/b/.env", "/ws/l/.key")...)}}
	draw := func() *CachedPlan {
		t.Helper()
		d, err := table.Draw()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	last := draw()
	for name, change := range map[string]func(){
		"nothing":                      nil,
		"what is to be hidden appears": func() { tree["/ws/b"], tree["/ws/b/.env"] = "/", "" },
		"it becomes a directory":       func() { tree["/ws/a/.env"] = "/" },
		"a link leads elsewhere":       func() { tree["/ws/l"] = "->b" },
	} {
		if change != nil {
			change()
		}
		if next := draw(); (next == last) != (change == nil) {
			t.Errorf("%s: the same plan: %v", name, next == last)
		} else {
			last = next
		}
		if draw() != last {
			t.Errorf("%s: a plan that holds is drawn again", name)
		}
	}
}
