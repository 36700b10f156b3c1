package audit

import (
	"fmt"
	"testing"
)

func TestAddNetworkUse(t *testing.T) {
	t.Parallel()
	var list []NetworkUse
	for range 3 {
		list = AddNetworkUse(list, NetworkUse{Name: "a.example", Port: 80, Allowed: true, Connections: 1, Sent: 2, Received: 3, DurationMS: 4})
	}
	list = AddNetworkUse(list, NetworkUse{Name: "a.example", Port: 80, Allowed: true, Reason: "connection refused", Connections: 1})
	if len(list) != 2 || list[0] != (NetworkUse{Name: "a.example", Port: 80, Allowed: true, Connections: 3, Sent: 6, Received: 9, DurationMS: 12}) {
		t.Errorf("%+v", list)
	}
	// A command that asks for many names cannot make the line as long as it likes.
	for i := range 5000 {
		list = AddNetworkUse(list, NetworkUse{Name: fmt.Sprint(i, ".example"), Allowed: i%2 == 0, Connections: 1})
	}
	if len(list) != maxNetworkUses {
		t.Errorf("%d entries", len(list))
	}
	others := uint64(0)
	for _, u := range list {
		if u.Name == "" {
			others += u.Connections
		}
	}
	if want := uint64(5000 - (maxNetworkUses - 2 - 2)); others != want {
		t.Errorf("%d others, want %d", others, want)
	}
}
