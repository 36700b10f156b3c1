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

// Image is what Start imports: busybox with its commands in /bin, a /etc/passwd and nothing else.
// BareImage is busybox at /busybox, and nothing else at all.
const (
	Image     = "sbxhost-test:busybox"
	BareImage = "sbxhost-test:bare"
)

// ErrMissing is wrapped by the error of Start if a necessary program or right is missing.
var ErrMissing = errors.New("no Docker daemon can be started here")

// ErrUser is wrapped, with ErrMissing, if the tests run as root and the kind needs an ordinary user,
// or the other way about.
var ErrUser = fmt.Errorf("%w as this user", ErrMissing)

// A Daemon is a running one.
type Daemon struct {
	// Socket is the path of its unix socket.
	Socket string

	kind   Kind
	client http.Client // of Socket
	pid    int
	dir    string
	log    *os.File
	stop   context.CancelFunc
	exited chan struct{}
}

const startTime = 5 * time.Minute

// Start starts a daemon and imports the images.
func (k Kind) Start(ctx context.Context) (_ *Daemon, err error) {
	if err := k.Missing(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", k.name+"-")
	if err != nil {
		return nil, err
	}
	d := &Daemon{kind: k, dir: dir, Socket: filepath.Join(dir, "sock"), stop: func() {}, exited: make(chan struct{})}
	d.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", d.Socket)
	}}
	defer func() {
		if err != nil {
			raw, _ := os.ReadFile(d.at("log"))
			err = fmt.Errorf("%w; the daemon said: %s", err, raw[max(0, len(raw)-2000):])
			d.Stop()
		}
	}()
	if err := os.Mkdir(d.at("xdg"), 0o700); err != nil {
		return nil, err
	}
	if d.log, err = os.Create(d.at("log")); err != nil {
		return nil, err
	}
	if err := d.run(); err != nil {
		return nil, err
	}
	if err := d.awaitAnswer(ctx); err != nil {
		return nil, err
	}
	for _, name := range []string{Image, BareImage} {
		files, err := archive(name == BareImage)
		if err != nil {
			return nil, err
		}
		// An error after the answer has begun is in the answer; containers then miss their image.
		if _, err := d.call(ctx, http.MethodPost, "/images/create?"+url.Values{"fromSrc": {"-"}, "repo": {name}}.Encode(), files); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// command makes a command with the daemon's environment.
func (d *Daemon) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = d.dir
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + d.dir, "TMPDIR=" + d.dir}
	if d.kind.rootless {
		cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+d.at("xdg"))
	}
	return cmd
}

func (d *Daemon) run() error {
	life, stop := context.WithCancel(context.Background())
	cmd := d.command(life, d.dockerd())
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdout, cmd.Stderr = d.log, d.log
	// A group of its own, or a terminal's signals to the test would reach it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if !d.kind.rootless {
		cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWNET
		// Firejail starts nothing where it finds an overlay of a container.
		cmd.SysProcAttr.Unshareflags = unix.CLONE_NEWNS
	}
	started := make(chan error)
	go func() {
		defer stop()
		runtime.LockOSThread() // the parent-death signal is the thread's; it ends with the goroutine
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(d.exited)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	d.pid, d.stop = cmd.Process.Pid, stop
	return nil
}

func (d *Daemon) awaitAnswer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := d.call(ctx, http.MethodGet, "/info", nil)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-d.exited:
			return fmt.Errorf("%s ended", d.kind.name)
		case <-ctx.Done():
			return fmt.Errorf("%s did not answer: %w", d.kind.name, err)
		}
	}
}

// call speaks to the daemon without Docker's client, which the module of these tests does not
// require.
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
	if d.pid > 0 {
		d.client.CloseIdleConnections()
		d.stop()
		<-d.exited
		if d.kind.rootless {
			d.cleanUp()
		}
	}
	d.log.Close()
	os.RemoveAll(d.dir)
}

const commands = "sh cat ls id env echo true false sleep touch mkdir rm mv cp ps kill mount umount wc head dd " +
	"chmod stat test ip wget nc tty stty setsid seq pwd ln tail grep sort printf date find hostname ulimit yes trap df od tr readlink"

// Archive returns the files of Image, to import them by other means.
func Archive() (*bytes.Buffer, error) { return archive(false) }

func archive(bare bool) (*bytes.Buffer, error) {
	busybox, err := os.ReadFile(look("busybox"))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	t := tar.NewWriter(&b)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		err = errors.Join(err, t.WriteHeader(&h))
		_, writeErr := t.Write(content)
		err = errors.Join(err, writeErr)
	}
	if bare {
		add(tar.Header{Name: "busybox", Mode: 0o755}, busybox)
		return &b, errors.Join(err, t.Close())
	}
	// A daemon gives directories that are only implied a mode of its choice.
	for _, dir := range []string{"bin/", "etc/"} {
		add(tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	add(tar.Header{Name: "bin/busybox", Mode: 0o755}, busybox)
	for _, name := range strings.Fields(commands) {
		add(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox", Mode: 0o777}, nil)
	}
	add(tar.Header{Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0::/root:/bin/sh\ntester:x:4242:4243::/:/bin/sh\n"))
	add(tar.Header{Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\ntester:x:4243:\n"))
	return &b, errors.Join(err, t.Close())
}
