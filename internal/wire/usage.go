package wire

import (
	"encoding/json"
	"fmt"
)

// UsageEnv names the variable with a [Usage], as JSON. An engine's process applies it first of all.
const UsageEnv = "SBXHOST_USAGE"

// Usage is how much a process may use, and the rights of its new files. It is the usage of the
// process for which the host runs commands, if that is not the host's own. Processes that an engine
// starts inherit it.
type Usage struct {
	Umask       int     `json:"umask"`
	Nice        int     `json:"nice"`
	OOMScoreAdj int     `json:"oom_score_adj"`
	CPUs        []int   `json:"cpus"` // the processors on which it may run
	Limits      []Limit `json:"limits"`
}

// Limit is one of setrlimit(2); -1 means no limit.
type Limit struct {
	Resource int   `json:"resource"`
	Soft     int64 `json:"soft"`
	Hard     int64 `json:"hard"`
}

// Environ returns the variable; none for nil.
func (u *Usage) Environ() []string {
	if u == nil {
		return nil
	}
	text, err := json.Marshal(u)
	if err != nil {
		panic(err) // it contains only numbers
	}
	return []string{UsageEnv + "=" + string(text)}
}

// ParseUsage reads the value of [UsageEnv].
func ParseUsage(text string) (u Usage, err error) {
	if err = json.Unmarshal([]byte(text), &u); err != nil {
		err = fmt.Errorf("%s: %w", UsageEnv, err)
	}
	return u, err
}
