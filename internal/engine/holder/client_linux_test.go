package holder

import (
	"testing"

	"github.com/sbxhost/sbxhost/internal/frame"
)

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

// A tree can change before the holder answers for the first init in it.
func TestAnswerBehindARestoredMount(t *testing.T) {
	ours, theirs, err := frame.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	theirs.Write(append(frame.Encode(msgRestored, &restored{dest: "/0/a"}), frame.Encode(msgDone, &number{7})...))
	if n, err := answerOf(ours); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
