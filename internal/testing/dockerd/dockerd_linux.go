package dockerd

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Image is what Start imports: busybox with its commands in /bin, a /etc/passwd
// and nothing else. BareImage is busybox at /busybox, and nothing else at all.
const (
	Image     = "sbxhost-test:busybox"
	BareImage = "sbxhost-test:bare"
)

// ErrMissing is wrapped by the error of Start where a program or a right that it
// takes is not here.
var ErrMissing = errors.New("no Docker daemon can be started here")

// ErrUser is wrapped, with ErrMissing, where the tests run as root and it takes
// an ordinary user, or the other way about.
var ErrUser = fmt.Errorf("%w as this user", ErrMissing)

// A Daemon is a running one.
type Daemon struct {
	// Socket is the path of its unix socket.
	Socket string

	client http.Client // of Socket

	name string // of the program
	pid  int
	dir  string
	log  *os.File
	stop func()
	// cleanUp removes what is not this user's, once the daemon has ended. It may
	// be nil.
	cleanUp func()
	exited  chan struct{}
}

const startTime = 5 * time.Minute

// Start starts a daemon and imports the images.
func Start(ctx context.Context) (*Daemon, error) {
	return start(ctx, "dockerd", asRoot, (*Daemon).dockerd)
}

func start(ctx context.Context, name string, missing func() error, command func(d *Daemon, program string) (*exec.Cmd, error)) (_ *Daemon, err error) {
	if err := errors.Join(missing(), installed(name, "busybox")); err != nil {
		return nil, err
	}
	program, _ := look(name)
	busybox, _ := look("busybox")
	dir, err := os.MkdirTemp("", name+"-")
	if err != nil {
		return nil, err
	}
	d := &Daemon{name: name, dir: dir, Socket: filepath.Join(dir, "sock"), exited: make(chan struct{})}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; the daemon said: %s", err, d.said())
			d.Stop()
		}
	}()
	if d.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	cmd, err := command(d, program)
	if err != nil {
		return nil, err
	}
	if err := d.run(cmd); err != nil {
		return nil, err
	}
	d.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.Socket)
	}}
	if err := d.awaitAnswer(ctx); err != nil {
		return nil, err
	}
	for name, files := range map[string]map[string]string{Image: rooted(), BareImage: {"busybox": ""}} {
		if err := d.load(ctx, name, busybox, files); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// installed is an error where one of programs is not.
func installed(programs ...string) error {
	for _, name := range programs {
		if _, err := look(name); err != nil {
			return err
		}
	}
	return nil
}

func asRoot() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it takes root", ErrUser)
	}
	return nil
}

// look finds a program that may lie where only root's PATH leads.
func look(name string) (string, error) {
	for _, dir := range []string{"/usr/sbin", "/usr/bin", "/usr/local/bin", "/bin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%w: %s is not installed", ErrMissing, name)
}

func (d *Daemon) dockerd(program string) (*exec.Cmd, error) {
	return exec.Command(program, "--iptables=false", "--ip-forward=false", "--ip-masq=false",
		"--data-root", filepath.Join(d.dir, "data"), "--exec-root", filepath.Join(d.dir, "exec"),
		"--pidfile", filepath.Join(d.dir, "pid"), "-H", "unix://"+d.Socket), nil
}

func (d *Daemon) run(cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = d.log, d.log
	cmd.Env = append(cmd.Env, "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME="+d.dir, "TMPDIR="+d.dir)
	// A group of its own, or a terminal's signals to the test would reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNET
		// Firejail starts nothing where it finds an overlay of a container.
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	}
	started := make(chan error)
	stop := make(chan struct{})
	d.stop = func() { close(stop) }
	go func() {
		runtime.LockOSThread() // the parent-death signal is the thread's; it ends with the goroutine
		err := cmd.Start()
		if err == nil {
			d.pid = cmd.Process.Pid
		}
		started <- err
		if err != nil {
			close(d.exited)
			return
		}
		go func() {
			<-stop
			cmd.Process.Signal(syscall.SIGTERM)
		}()
		cmd.Wait()
		close(d.exited)
	}()
	return <-started
}

func (d *Daemon) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		// Not a ping: Podman asks the package manager for the versions of all its programs first, which
		// takes longer on a busy machine than a client waits.
		_, err := d.call(ctx, http.MethodGet, "/info", nil)
		if err == nil {
			tick.Stop()
			return nil
		}
		select {
		case <-tick.C:
		case <-d.exited:
			return fmt.Errorf("%s ended", d.name)
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer: %w", d.name, err)
		}
	}
}

// call speaks to the daemon without Docker's client, which the module of these
// tests does not require.
func (d *Daemon) call(ctx context.Context, method, path string, body io.Reader) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://daemon"+path, body)
	if err != nil {
		return nil, err
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	return answer, err
}

// Admit lets a user of the machine use the daemon, beside root.
func (d *Daemon) Admit(uid int) error {
	return errors.Join(os.Chmod(d.dir, 0o711), os.Chown(d.Socket, uid, -1))
}

// Stop ends the daemon and removes its directory.
func (d *Daemon) Stop() {
	if d.client.Transport != nil {
		if d.name == "podman" {
			d.removeContainers()
		}
		d.client.CloseIdleConnections()
	}
	if d.stop != nil {
		d.stop()
		<-d.exited
	}
	d.log.Close()
	if d.cleanUp != nil && d.pid > 1 {
		d.cleanUp()
	}
	os.RemoveAll(d.dir)
}

func (d *Daemon) said() string {
	raw, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(raw[max(0, len(raw)-2000):])
}

// rooted are the files of Image: name and symlink target, or "" for busybox.
func rooted() map[string]string {
	files := map[string]string{"bin/busybox": ""}
	for _, name := range strings.Fields("sh cat ls id env echo true false sleep touch mkdir rm mv cp ps kill mount umount wc head dd " +
		"chmod stat test ip wget nc tty stty setsid seq pwd ln tail grep sort printf date find hostname ulimit yes trap df od tr readlink") {
		files["bin/"+name] = "busybox"
	}
	return files
}

// load imports an image that holds busybox.
func (d *Daemon) load(ctx context.Context, name, busybox string, files map[string]string) error {
	content, err := os.ReadFile(busybox)
	if err != nil {
		return err
	}
	b, err := archive(content, name == Image, files)
	if err != nil {
		return err
	}
	// What goes wrong once the answer has begun is told in it; containers then
	// miss their image.
	_, err = d.call(ctx, http.MethodPost, "/images/create?"+url.Values{"fromSrc": {"-"}, "repo": {name}}.Encode(), b)
	return err
}

// Archive is the files of Image, for who imports it by other means.
func Archive() (*bytes.Buffer, error) {
	busybox, err := look("busybox")
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(busybox)
	if err != nil {
		return nil, err
	}
	return archive(content, true, rooted())
}

func archive(content []byte, system bool, files map[string]string) (*bytes.Buffer, error) {
	var err error
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	add := func(h *tar.Header, content []byte) {
		h.Size = int64(len(content))
		err = errors.Join(err, t.WriteHeader(h))
		_, werr := t.Write(content)
		err = errors.Join(err, werr)
	}
	if system {
		// A daemon gives directories that are only implied a mode of its choice.
		for _, dir := range []string{"bin/", "etc/"} {
			add(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
		}
	}
	for file, target := range files {
		if target != "" {
			add(&tar.Header{Name: file, Typeflag: tar.TypeSymlink, Linkname: target, Mode: 0o777}, nil)
		} else {
			add(&tar.Header{Name: file, Typeflag: tar.TypeReg, Mode: 0o755}, content)
		}
	}
	if system {
		add(&tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:0::/root:/bin/sh\ntester:x:4242:4243::/:/bin/sh\n"))
		add(&tar.Header{Name: "etc/group", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:\ntester:x:4243:\n"))
	}
	return &b, errors.Join(err, t.Close())
}
