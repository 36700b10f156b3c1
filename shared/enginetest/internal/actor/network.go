package actor

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// networkActions speak to somebody.
func networkActions() map[string]action {
	return map[string]action{
		"dial":         dialOrAsk,
		"route":        anyOf(route),
		"interfaces":   interfaces,
		"resolver":     resolver,
		"own-loopback": ownLoopback,
		"own-socket":   ownSocket,
		"bind-low":     bindLow,
		"serve":        serve,
	}
}

// netPatience bounds an action's wait for an answer.
const netPatience = 10 * time.Second

// dialOrAsk is Dial by whichever way there is: directly, or by the proxy that the engine has put
// into the variables.
func dialOrAsk(args []string) (string, error) {
	got, err := Dial(args)
	proxy, parsed := url.Parse(os.Getenv("HTTP_PROXY"))
	if err == nil || parsed != nil || proxy.Host == "" || args[0] != "tcp" {
		return got, err
	}
	c, refused := net.DialTimeout("tcp", proxy.Host, netPatience)
	if refused != nil {
		return "", errors.Join(err, refused)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(netPatience))
	ask := "CONNECT " + args[1] + " HTTP/1.1\r\nHost: " + args[1] + "\r\n"
	if password, ok := proxy.User.Password(); ok {
		ask += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(c, ask+"\r\n"); err != nil {
		return "", err
	}
	in := bufio.NewReader(c)
	status, refused := in.ReadString('\n')
	if refused != nil || !strings.Contains(status, " 200 ") {
		return "", errors.Join(err, fmt.Errorf("the proxy says %q", status))
	}
	for line := status; strings.TrimSpace(line) != "" && refused == nil; {
		line, refused = in.ReadString('\n')
	}
	got, refused = answers(in, args[2])
	return got + " through the proxy", refused
}

// Dial connects to NETWORK ADDRESS and reads the CANARY from there.
func Dial(args []string) (string, error) {
	c, err := net.DialTimeout(args[0], args[1], netPatience)
	if args[0] == "unix" {
		err = orNoSocket(err)
	}
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(netPatience))
	if args[0] == "udp" {
		if _, err := c.Write([]byte("?")); err != nil {
			return "", err
		}
	}
	return answers(c, args[2])
}

func answers(r io.Reader, canary string) (string, error) {
	buf := make([]byte, 256)
	n, err := r.Read(buf)
	if err != nil && err != io.EOF {
		return "", err
	}
	if !strings.Contains(string(buf[:n]), canary) {
		return "", fmt.Errorf("somebody else answers: %q", buf[:n])
	}
	return "it answers", nil
}

// route asks the kernel for a way there, and sends nothing.
func route(addr string) (string, error) {
	c, err := net.Dial("udp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return "from " + c.LocalAddr().String(), nil
}

func interfaces([]string) (string, error) {
	list, err := net.Interfaces()
	if err != nil {
		return "", err
	}
	var others []string
	for _, i := range list {
		// tunl0 and the like are in every new namespace, and down.
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			others = append(others, i.Name)
		}
	}
	if len(others) == 0 {
		return "", errors.New("none")
	}
	return strings.Join(others, " "), nil
}

// resolver asks for a way to the name servers of this view, or to one that is
// everywhere.
func resolver([]string) (string, error) {
	text, _ := os.ReadFile("/etc/resolv.conf")
	servers := []string{"1.1.1.1:53"}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "nameserver" && !strings.HasPrefix(f[1], "127.") {
			servers = append(servers, net.JoinHostPort(f[1], "53"))
		}
	}
	return each(servers, route)
}

func serveOnce(network, addr string) (string, error) {
	l, err := net.Listen(network, addr)
	if err != nil {
		return "", err
	}
	defer l.Close()
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	return Dial([]string{network, l.Addr().String(), "hello"})
}

// serve listens at ADDRESS for somebody who reads the CANARY.
func serve(args []string) (string, error) {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return "", err
	}
	defer l.Close()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(netPatience))
	c, err := l.Accept()
	if err != nil {
		return "", err
	}
	defer c.Close()
	_, err = c.Write([]byte(args[1]))
	return "somebody has asked", err
}

func ownLoopback([]string) (string, error) {
	got, err := serveOnce("tcp", "127.0.0.1:0")
	return got, orNoSocket(err)
}

// orNoSocket says of an error that commands of this engine make no such sockets at all, if
// that is what it says.
func orNoSocket(err error) error {
	if call, ok := errors.AsType[*os.SyscallError](err); ok && call.Syscall == "socket" && errors.Is(err, syscall.EPERM) {
		return &absentError{"no such sockets can be made: " + err.Error()}
	}
	return err
}

func ownSocket(args []string) (string, error) {
	defer os.Remove(args[0])
	return serveOnce("unix", args[0])
}

// bindLow listens on a port for which the host asks a privilege.
func bindLow([]string) (string, error) {
	var last error
	for _, port := range []string{"1", "7", "9", "19"} {
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			l.Close()
			return "port " + port, nil
		}
		if last = err; !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return "", last
}
