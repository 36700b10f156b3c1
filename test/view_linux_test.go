package test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// inNamespace runs a script in a mount namespace of its own, in which /opt, /srv,
// /root and /home are empty and nobody else's, and the workspace's owner has the
// home /home/acct. What is made there is gone with it.
func inNamespace(t *testing.T, bin, who, config, script string) string {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	if who == "owner" {
		uid = ownerUID
	}
	account := fmt.Sprintf("acct:x:%d:%d::/home/acct:/bin/sh\n", uid, uid)
	if uid != 0 {
		account += "root:x:0:0::/root:/bin/sh\n"
	}
	err = errors.Join(os.Mkdir(base+"/w", 0o755), os.Chown(base+"/w", uid, uid), os.Chmod(filepath.Dir(base), 0o755), os.Chmod(base, 0o755),
		os.WriteFile(base+"/passwd", []byte(account), 0o644), os.WriteFile(base+"/config.hcl", []byte(config), 0o644),
		os.WriteFile(base+"/w/socket.pl", []byte(`use Socket; my $do = shift; my $n = 0;
for my $p (@ARGV) {
	socket(my $s, PF_UNIX, SOCK_STREAM, 0) or die;
	if ($do eq "listen") { bind($s, pack_sockaddr_un($p)) or die "$p: $!"; chmod(0777, $p); listen($s, 99) or die; push @all, $s; next }
	print connect($s, pack_sockaddr_un($p)) ? "connected to $p\n" : "";
}
if ($do eq "listen") { print "ready\n"; close(STDOUT); sleep }
`), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bwrap", "--dev-bind", "/", "/", "--tmpfs", "/opt", "--tmpfs", "/srv", "--tmpfs", "/root", "--tmpfs", "/home", "--ro-bind", base+"/passwd", "/etc/passwd",
		"--die-with-parent", "--chdir", base+"/w", "sh", "-c", `
		inside() { sbxhost exec -config $B/config.hcl "$@"; }
		listen() { mkfifo $B/ready; (cd $1; shift; exec "$@" >$B/ready) & pids="$pids $!"; read ready <$B/ready; rm $B/ready; test "$ready" = ready; }
		trap 'kill $pids 2>/dev/null' EXIT
	`+script)
	cmd.WaitDelay = time.Minute
	cmd.Env = []string{"PATH=" + bin + ":/usr/local/bin:/usr/bin:/bin", "HOME=/srv/elsewhere", "XDG_STATE_HOME=" + base + "/state", "XDG_CACHE_HOME=" + base + "/cache", "TMPDIR=/tmp", "LC_ALL=C", "B=" + base}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return string(out)
}

// Sockets in what an engine shows by itself are hidden however they came to be
// there: bound by a relative path, or in another network namespace, so that the
// kernel's list has them not.
func TestSocketsOfTheView(t *testing.T) {
	t.Parallel()
	bin := buildForAll(t)
	const config = `default_sandbox = "minimal"
sandbox "minimal" {
  engine = "native"
}
sandbox "minimal-granted" {
  engine       = "native"
  unix_sockets = ["/opt/app/net.sock", "/srv/app/net.sock"]
}
sandbox "minimal-bound" {
  engine     = "native"
  bind_paths = ["/opt/bound", "/srv/bound"]
}
sandbox "host" {
  engine     = "native"
  filesystem = "host"
}
sandbox "host-bound" {
  engine     = "native"
  filesystem = "host"
  bind_paths = ["/opt/bound", "/srv/bound"]
}
sandbox "host-granted" {
  engine       = "native"
  filesystem   = "host"
  unix_sockets = ["/opt/app/rel.sock", "/srv/app/rel.sock"]
}
`
	inEachWay(t, whose(), func(t *testing.T, who string) {
		got := inNamespace(t, bin, who, config, `
			mkdir -m 755 $HOME /home/acct
			all="/opt/app/abs.sock /opt/app/rel.sock /opt/app/net.sock /srv/app/abs.sock /srv/app/rel.sock /srv/app/net.sock"
			for at in /opt/app /srv/app; do
				mkdir $at ${at%app}bound
				listen / perl $PWD/socket.pl listen $at/abs.sock
				listen $at perl $PWD/socket.pl listen rel.sock
				listen / bwrap --die-with-parent --dev-bind / / --unshare-net perl $PWD/socket.pl listen $at/net.sock
			done
			perl socket.pl connect $all
			for s in minimal minimal-bound host host-bound minimal-granted host-granted; do
				echo $s
				inside -sandbox $s -- perl socket.pl connect $all
			done`)
		want := ""
		for _, at := range []string{"opt", "srv"} {
			for _, name := range []string{"abs", "rel", "net"} {
				want += "connected to /" + at + "/app/" + name + ".sock\n"
			}
		}
		want += "minimal\nminimal-bound\nhost\nhost-bound\nminimal-granted\nconnected to /opt/app/net.sock\nconnected to /srv/app/net.sock\n" +
			"host-granted\nconnected to /opt/app/rel.sock\nconnected to /srv/app/rel.sock\n"
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// The host's view shows nothing of the homes, whatever HOME says, and what is bound
// in one.
func TestHomesOfTheHostView(t *testing.T) {
	t.Parallel()
	bin := buildForAll(t)
	const config = `default_sandbox = "host"
sandbox "host" {
  engine     = "native"
  filesystem = "host"
}
sandbox "bound" {
  engine     = "native"
  filesystem = "host"
  bind_paths = ["/home/acct/shown", "/root/shown"]
}
`
	const script = `
		for home in /root /home/acct /srv/elsewhere; do
			mkdir -p $home/shown $home/deep/er; chmod -R a+rX $home
			echo secret in $home >$home/canary; echo secret in $home >$home/deep/er/canary; echo shown in $home >$home/shown/file
		done
		read='for home in /root /home/acct /srv/elsewhere; do cat $home/canary $home/deep/er/canary $home/shown/file; done 2>/dev/null; exit 0'
		`
	inEachWay(t, whose(), func(t *testing.T, who string) {
		control := inNamespace(t, bin, who, config, script+`sh -c "$read"`)
		if n := strings.Count(control, "secret in "); n != 6 {
			t.Fatalf("the control shows %q", control)
		}
		const elsewhere = "secret in /srv/elsewhere\nsecret in /srv/elsewhere\nshown in /srv/elsewhere\n"
		for _, tt := range []struct{ set, want string }{
			{"true", ""}, // HOME is /srv/elsewhere
			{"unset HOME", elsewhere},
			{"HOME=/", elsewhere},
			{"HOME=/home/acct", elsewhere},
			{"HOME=/home", elsewhere},
		} {
			if got := inNamespace(t, bin, who, config, script+tt.set+`; inside -sandbox host -- sh -c "$read"`); got != tt.want {
				t.Errorf("%s: got %q, want %q", tt.set, got, tt.want)
			}
			want := "shown in /root\nshown in /home/acct\n" + tt.want
			if got := inNamespace(t, bin, who, config, script+tt.set+`; inside -sandbox bound -- sh -c "$read"`); got != want {
				t.Errorf("%s: with binds: got %q, want %q", tt.set, got, want)
			}
		}
	})
}
