package doctor

// finding is the result of one check.
type finding struct {
	Name  string `json:"name"`
	State string `json:"state"` // ok, limited, missing or unknown
	Found string `json:"found"`
	// Consequence says what the finding means for sandboxes, and Fix how to change it; both are
	// empty if all is well.
	Consequence string `json:"consequence"`
	Fix         string `json:"fix"`
}

const (
	stateOK      = "ok"
	stateLimited = "limited" // works, with less than it could
	stateMissing = "missing"
	stateUnknown = "unknown"
)
