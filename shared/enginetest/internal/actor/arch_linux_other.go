//go:build linux && !amd64

package actor

var archCalls map[string]uintptr

func int80Keyctl([]string) (string, error) {
	return "", absent("this architecture has one entry")
}
