package workspace

import "strings"

// foldName folds case, as the file system does for a name.
func foldName(name string) string { return strings.ToLower(name) }
