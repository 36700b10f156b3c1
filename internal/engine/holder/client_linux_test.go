package holder

import "testing"

func TestParseUmask(t *testing.T) {
	for status, want := range map[string]uint32{
		"Name:\tx\nUmask:\t0022\nState:\tR\n": 0o022,
		"Name:\tx\nUmask:\t0000\n":            0,
		"Umask:\t0777":                        0o777,
		"Name:\tx\n":                          0o077,
		"Umask:\tnone\n":                      0o077,
		"Umask:\t1777\n":                      0o077,
		"":                                    0o077,
	} {
		if got := parseUmask(status); got != want {
			t.Errorf("parseUmask(%q) = %04o, want %04o", status, got, want)
		}
	}
}
