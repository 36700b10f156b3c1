//go:build unix

package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/sbxhost/sbxhost/internal/view"
	"github.com/sbxhost/sbxhost/shared"
)

// fillable are the session's directories, by path inside, that a command can fill: they last, so an
// engine cannot limit their size as it does for memory.
func fillable(spec *shared.Spec) string {
	var dirs []string
	for _, m := range spec.Table {
		home, temp := m.Why == view.OriginHome && m.Access == shared.ReadWrite, m.Why == view.OriginTemp && m.Path == "/tmp"
		if (home || temp) && !spec.Unconfined { // otherwise its writes have no limit in any case
			dirs = append(dirs, m.Path)
		}
	}
	return strings.Join(dirs, " and ")
}

// checkSize refuses a required size limit for a directory without enforcement.
func checkSize(spec *shared.Spec) error {
	dirs := fillable(spec)
	if dirs == "" || spec.Limits.TempSize == 0 || spec.Limits.BestEffort {
		return nil
	}
	return &shared.Error{Kind: shared.ErrUnsupported, Attribute: "limits.temp_size",
		Message: fmt.Sprintf("nothing can enforce it for the session's directories on a disk: %s", dirs),
		Hint:    `accept that with enforce = "best_effort", or leave temp_size out`}
}

// UnboundedEvents report a size limit that is not enforced for the session's directories.
func UnboundedEvents(spec *shared.Spec) []shared.Event {
	dirs := fillable(spec)
	if dirs == "" || spec.Limits.TempSize == 0 {
		return nil
	}
	e := shared.LimitEvent("temp_size", "", "not enforced")
	e.Time, e.Message = time.Now(), fmt.Sprintf("%s for %s on a disk", e.Message, dirs)
	return []shared.Event{e}
}

// UnboundedNotes list, for people who ask, the directories without a size limit.
func UnboundedNotes(spec *shared.Spec) []string {
	dirs := fillable(spec)
	if dirs == "" {
		return nil
	}
	return []string{fmt.Sprintf("session: nothing bounds what commands write to %s on a disk", dirs)}
}
