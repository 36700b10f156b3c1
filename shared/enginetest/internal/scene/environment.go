package scene

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/sbxhost/sbxhost/shared/enginetest/internal/actor"
)

// OwnTemp is a variable that an engine may set where a command has none, since
// its sandboxes have no /tmp.
const OwnTemp = "TMPDIR={ws}"

// ExactEnvironment compares what the command sees with what it was given.
func ExactEnvironment(variables ...string) func(*Scene) {
	return func(s *Scene) {
		t := s.Trying("environment")
		t.Command.Env = s.Fill(variables...)
		got := slices.DeleteFunc(s.Tells(t), func(e string) bool { return e == actor.Env })
		if !slices.Equal(got, t.Command.Env) {
			s.Failf("it sees %s", Tail(fmt.Sprintf("%q", got)))
		}
	}
}

// Tells runs an action that tells a list.
func (s *Scene) Tells(t *Trial) (list []string) {
	o := s.Done(t)
	if o.Verdict.Kind != actor.Got {
		s.Failf("%s", o.Told())
	}
	s.Must(json.Unmarshal([]byte(o.Verdict.Detail), &list))
	return list
}
