package review

import (
	"path"
	"strings"

	"github.com/sbxhost/sbxhost/internal/gitindex"
)

// objects reports whether a path in a git directory is one of git's objects, or a directory of them.
func objects(in string) bool { return in == "objects" || strings.HasPrefix(in, "objects/") }

// isIndex reports whether a path in a git directory is the index of a repository, or a part of one.
func isIndex(in string) bool {
	return gitindex.IsIndexName(path.Base(in)) && !strings.Contains("/"+in, "/refs/") && !strings.Contains("/"+in, "/logs/") && !objects(in)
}
