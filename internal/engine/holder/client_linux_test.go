package holder

import (
	"testing"

	"github.com/sbxhost/sbxhost/internal/frame"
)

// A tree can change before the holder answers for the first init in it.
func TestAnswerBehindARestoredMount(t *testing.T) {
	ours, theirs, err := frame.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	theirs.Write(append(frame.Encode(msgRestored, &restoredMount{dest: "/0/a"}), frame.Encode(msgDone, &number{7})...))
	if n, err := answerOf(ours); n != 7 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
