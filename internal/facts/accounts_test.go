//go:build unix

package facts

import "testing"

func TestAccountLines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, number string
		fields       int
		want         string
	}{
		{"dirk:$6$hash:54399:100:Dirk D,,,:/home/dirk:/bin/sh\n", "54399", 7, "dirk:x:54399:100:Dirk D,,,:/home/dirk:/bin/sh"},
		{"staff:*:100:anna,dirk\n", "100", 4, "staff:x:100:"},
		{"staff:*:100:", "100", 4, "staff:x:100:"},
		{"dirk:x:54398:100::/:/bin/sh\n", "54399", 7, ""},                       // somebody else
		{"dirk:x:54399:100::/:/bin/sh\nroot::0:0::/:/bin/sh\n", "54399", 7, ""}, // two
		{"dirk:x:54399:100::/home\r:/bin/sh\n", "54399", 7, ""},                 // no text
		{":x:54399:100::/:/bin/sh\n", "54399", 7, ""}, {"", "54399", 7, ""}, {"\n", "54399", 4, ""},
	} {
		if got := checkedLine(tt.text, tt.number, tt.fields); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
	const content = "root:x:0:0:root:/root:/bin/sh\nshort:x:7\nlast:x:1000:5::/:/bin/sh"
	for number, want := range map[string]bool{"0": true, "1000": true, "5": false, "7": false, "100": false} {
		if got := hasNumber([]byte(content), number); got != want {
			t.Errorf("%s: %v", number, got)
		}
	}
}
