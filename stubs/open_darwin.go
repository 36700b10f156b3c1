package stubs

import "golang.org/x/sys/unix"

// openDir opens a directory without following any symlink.
func openDir(path string) (int, error) {
	return openBySteps(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
}

// createFile creates a file.
func createFile(dir int, name, content string) error { return createNamed(dir, name, content) }

// renameNew moves a file or directory to where there is nothing.
func renameNew(fromDir int, from string, toDir int, to string) error {
	return unix.RenameatxNp(fromDir, from, toDir, to, unix.RENAME_EXCL)
}
