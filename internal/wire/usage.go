package wire

import (
	"encoding/json"
	"fmt"
)

// UsageEnv names the variable with a [Usage], as JSON, which an engine's process takes over before it does
// anything else.
const UsageEnv = "SBXHOST_USAGE"

// Usage is how much somebody may use, and with which rights what he makes is made: of whom the commands of a host
// are for, where that is not the host's own process. What an engine starts inherits it.
type Usage struct {
	Umask       int     `json:"umask"`
	Nice        int     `json:"nice"`
	OOMScoreAdj int     `json:"oom_score_adj"`
	CPUs        []int   `json:"cpus"` // on which it may run
	Limits      []Limit `json:"limits"`
}

// Limit is one of setrlimit(2); -1 is without limit.
type Limit struct {
	Resource int   `json:"resource"`
	Soft     int64 `json:"soft"`
	Hard     int64 `json:"hard"`
}

// Environ gives the variable; nil has none.
func (u *Usage) Environ() []string {
	if u == nil {
		return nil
	}
	text, err := json.Marshal(u)
	if err != nil {
		panic(err) // of numbers
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
