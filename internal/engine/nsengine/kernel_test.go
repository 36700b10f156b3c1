package nsengine

import (
	"strings"
	"testing"
)

// The nearest reason comes first.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		k    Kernel
		want string
	}{
		{Kernel{Sandbox: true, MaxNamespaces: "0"}, "inside a sandbox whose commands may not make namespaces; set config { nested_userns = true }"},
		{Kernel{Sandbox: true, Root: true}, "root has no rights in namespaces of its own; run the sandbox around it as an ordinary user"},
		{Kernel{MaxNamespaces: "0", Container: true}, "user.max_user_namespaces is 0; as root"},
		{Kernel{UnprivilegedClone: "0", Root: true}, "the kernel refuses new namespaces"},
		{Kernel{UnprivilegedClone: "0"}, "unprivileged_userns_clone is 0; as root"},
		{Kernel{Container: true, AppArmorRestrict: "1"}, "the container around this process"},
		{Kernel{AppArmorRestrict: "1"}, "AppArmor restricts user namespaces here (kernel.apparmor_restrict_unprivileged_userns is 1); profile"},
	} {
		reason, fix := tt.k.Refused("profile")
		if got := reason + "; " + fix; !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %s; want %s", tt.k, got, tt.want)
		}
	}
}
