package shared

// Launched is an engine in a process of its own.
type Launched struct{ Engine }
