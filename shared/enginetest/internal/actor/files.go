package actor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// fileActions work on paths.
func fileActions() map[string]action {
	return map[string]action{
		"read": anyOf(readSome),
		"read-canary": func(args []string) (string, error) { // CANARY PATH...
			return each(args[1:], func(path string) (string, error) { return readCanary(args[0], path) })
		},
		"search": func(args []string) (string, error) { // CANARY PATTERN
			if found := Search(args[0], args[1]); found != "" {
				return found, nil
			}
			return "", errors.New("found in no process")
		},
		"open":       anyOf(func(path string) (string, error) { return "can be opened", opens(path, os.O_RDONLY) }),
		"reach":      anyOf(reach),
		"list":       listOthers,
		"open-write": anyOf(func(path string) (string, error) { return "can be opened for writing", opens(path, os.O_WRONLY) }),
		"rewrite":    anyOf(rewrite),
		"create":     anyOf(create),
		"create-remove": anyOf(func(path string) (string, error) { // in the system's directories, where nothing may stay
			detail, err := create(path)
			if err == nil {
				err = os.Remove(path)
			}
			return detail, err
		}),
		"append": anyOf(func(path string) (string, error) {
			return "was written", writeTo(path, os.O_WRONLY|os.O_APPEND, "written inside")
		}),
		"write":    func(args []string) (string, error) { return "was written", writeTo(args[0], os.O_WRONLY, args[1]) },
		"unlink":   onOne(os.Remove),
		"rename":   onTwo(os.Rename),
		"link":     onTwo(os.Link),
		"mkdir":    onOne(func(dir string) error { return os.Mkdir(dir, 0o755) }),
		"truncate": truncate,
		"times":    onOne(func(path string) error { return os.Chtimes(path, time.Now(), time.Now()) }),
		"chmod": func(args []string) (string, error) { // PATH MODE
			if err := syscall.Chmod(args[0], mode(args[1])); err != nil {
				return "", err
			}
			return hasMode(args)
		},
		"create-mode": createMode,
		"has-mode":    hasMode,
		"chown":       onOne(func(path string) error { return os.Lchown(path, os.Getuid()+1, os.Getgid()+1) }),
		"fill":        fill,
		"descriptors": descriptors,
		"stat": func(args []string) (string, error) {
			_, err := os.Lstat(args[0])
			return "is there", err
		},
		"mkfifo": onOne(func(path string) error { return syscall.Mkfifo(path, 0o600) }),
		"is-fifo": func(args []string) (string, error) {
			info, err := os.Lstat(args[0])
			if err == nil && info.Mode()&fs.ModeNamedPipe == 0 {
				err = errors.New("it is none")
			}
			return "it is one", err
		},
		"nothing": func([]string) (string, error) { return "", nil },
	}
}

// readSome reads a file, up to a bound, without hanging on a fifo.
func readSome(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		names, err := f.Readdirnames(-1)
		if err == nil && len(names) == 0 {
			err = fmt.Errorf("%s: an empty directory", path)
		}
		return strings.Join(names, " "), err
	}
	f.SetReadDeadline(time.Now().Add(time.Second)) // what it has is there at once
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if len(text) == 0 && err == nil {
		err = fmt.Errorf("%s: empty", path)
	}
	if len(text) > 0 {
		err = nil
	}
	return string(text), err
}

// reach reads a symlink, or opens a file.
func reach(path string) (string, error) {
	if link, err := os.Readlink(path); err == nil {
		return link, nil
	}
	return "can be opened", opens(path, os.O_RDONLY)
}

// readCanary wants a file to hold the canary.
func readCanary(canary, path string) (string, error) {
	text, err := readSome(path)
	if err == nil && !strings.Contains(text, canary) {
		err = fmt.Errorf("%s: it holds something else: %q", path, text)
	}
	return text, err
}

// Search looks for a text in the files that match a pattern, but for this process's own. A symlink
// counts only if the text is in its target, too.
func Search(canary, pattern string) string {
	paths, _ := filepath.Glob(pattern)
	for _, path := range paths {
		link, err := os.Readlink(path)
		if strings.HasPrefix(path, fmt.Sprintf("/proc/%d/", os.Getpid())) || err == nil && !strings.Contains(link, canary) {
			continue
		}
		if _, err := readCanary(canary, path); err == nil {
			return path
		}
	}
	return ""
}

// listOthers lists DIR; what leads to one of the paths EXCEPT does not count.
func listOthers(args []string) (string, error) {
	entries, err := os.ReadDir(args[0])
	if err != nil {
		return "", err
	}
	var names []string
	for _, e := range entries {
		path := filepath.Join(args[0], e.Name())
		if !slices.ContainsFunc(args[1:], func(except string) bool {
			return path == except || strings.HasPrefix(except, path+"/") || strings.HasPrefix(path, except+"/")
		}) {
			names = append(names, e.Name())
		}
	}
	if len(names) == 0 {
		return "", fmt.Errorf("%s shows nothing", args[0])
	}
	if len(names) > 8 {
		names = append(names[:8], "...")
	}
	return strings.Join(names, " "), nil
}

// opens says whether a file can be opened.
func opens(path string, flags int) error {
	f, err := os.OpenFile(path, flags|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// writeTo writes to a file that is opened so.
func writeTo(path string, flags int, text string) error {
	f, err := os.OpenFile(path, flags|syscall.O_NONBLOCK, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// rewrite writes a kernel setting's own value, so that a leak changes nothing.
func rewrite(path string) (string, error) {
	value, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return "was written", writeTo(path, os.O_WRONLY, string(value))
}

func create(path string) (string, error) {
	return "was created", writeTo(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, "made inside")
}

// mode is an argument that is one.
func mode(arg string) uint32 {
	mode, err := strconv.ParseUint(arg, 8, 32)
	tried(err)
	return uint32(mode)
}

func createMode(args []string) (string, error) { // PATH MODE
	fd, err := syscall.Open(args[0], syscall.O_CREAT|syscall.O_WRONLY|syscall.O_EXCL|syscall.O_CLOEXEC, mode(args[1]))
	if err != nil {
		return "", err
	}
	syscall.Close(fd)
	return hasMode(args)
}

func hasMode(args []string) (string, error) { // PATH MODE
	const special = 0o7000
	var st syscall.Stat_t
	if err := syscall.Stat(args[0], &st); err != nil {
		return "", err
	}
	if got := uint32(st.Mode); got&special != mode(args[1])&special {
		return "", fmt.Errorf("the mode became %04o", got&0o7777)
	}
	return "has mode " + args[1], nil
}

// fill writes BYTES to a file in DIR.
func fill(args []string) (string, error) {
	f, err := os.Create(filepath.Join(args[0], "filler"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", absent("there is no " + args[0])
	}
	tried(err)
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 1<<20)
	for range number(args[1]) / len(block) {
		if _, err := f.Write(block); err != nil {
			return "", err
		}
	}
	return args[1] + " bytes were written", nil
}

// descriptors tells which are open besides the standard ones and those of the Go runtime.
func descriptors([]string) (string, error) {
	var open []string
	for fd := 3; fd < 1024; fd++ {
		link, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		if errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(link, "anon_inode:") || strings.Contains(link, "/cpu.") {
			continue // the runtime's poller, and where it looks for its share of processors
		}
		if link == "" {
			link = err.Error()
		}
		open = append(open, fmt.Sprintf("%d -> %s", fd, link))
	}
	if len(open) == 0 {
		return "", errors.New("none but the standard ones")
	}
	return strings.Join(open, ", "), nil
}

// truncate empties a file by whichever call does it.
func truncate(args []string) (string, error) {
	err := os.Truncate(args[0], 0)
	for _, access := range []int{os.O_RDONLY, os.O_WRONLY, 3} { // 3 is to ioctl alone
		if err != nil {
			err = opens(args[0], access|os.O_TRUNC)
		}
	}
	return "is empty", err
}
