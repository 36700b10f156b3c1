package stubs

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// createFile creates a file and claims it.
func createFile(dir int, name, content string) (fd int, err error) {
	return createNamed(dir, name, content)
}

// renameNew moves a file or directory to a free name.
func renameNew(fromDir int, from string, toDir int, to string) error {
	return unix.RenameatxNp(fromDir, from, toDir, to, unix.RENAME_EXCL)
}

// identity distinguishes a directory from every other one of the machine, also removed ones. It is
// empty if the file system does not report birth times.
func identity(dir int) string {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) != nil || st.Btim.Sec == 0 {
		return ""
	}
	return fmt.Sprintf("%x.%x.%x.%x", st.Dev, st.Ino, st.Btim.Sec, st.Btim.Nsec)
}
