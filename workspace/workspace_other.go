//go:build !unix

package workspace

// Workspace is always the empty one: no command runs here that could see it.
type Workspace struct{}

// Root is "".
func (*Workspace) Root() string { return "" }
