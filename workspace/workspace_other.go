//go:build !unix

package workspace

// Workspace is always empty: no command runs on this system.
type Workspace struct{}

// Root is empty.
func (*Workspace) Root() string { return "" }
