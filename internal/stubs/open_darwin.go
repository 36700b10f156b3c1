package stubs

// createFile creates a file and claims it.
func createFile(dir int, name, content string) (fd int, err error) {
	return createNamed(dir, name, content)
}
