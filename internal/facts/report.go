package facts

// A RepositoryReport is a git repository in a writable directory that appeared or changed while a
// command ran, with what a git outside of a sandbox would act on there.
type RepositoryReport struct {
	Path string `json:"path"`
	// ActsOn describes what a command made or changed: hooks, settings that name commands or further
	// configuration, files that settings name, and what git continues from or uses, such as a rebase.
	// It has the first ten, raw: quote them. More counts the rest.
	ActsOn []string `json:"acts_on"`
	More   int      `json:"more"`
	// Unclear says, in one line, why git may act on, or write to, more than that; else empty.
	Unclear string `json:"unclear"`
	// Superproject is the user's repository whose next git status enters this one, as a submodule,
	// and acts on what the report lists. Such reports come first. Empty for others.
	Superproject string `json:"superproject"`
	// Existing says that the repository existed before the command, already as that submodule.
	Existing bool `json:"existing"`
}
