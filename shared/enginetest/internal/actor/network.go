package actor

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
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
		"dial": dialOrAsk,
		"by-any-proxy": func(args []string) (string, error) { // CANARY ADDRESS...
			return each(args[1:], func(address string) (string, error) {
				return each([]string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GET"}, func(way string) (string, error) {
					return Dial([]string{way, address, args[0]})
				})
			})
		},
		"request":    request,
		"route":      anyOf(route),
		"interfaces": interfaces,
		"resolver":   resolver,
		"listen": anyOf(func(address string) (string, error) {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return "", err
			}
			return "it listens", l.Close()
		}),
		"own-server": ownServer,
		"serve":      serve,
	}
}

// netPatience bounds an action's wait for an answer.
const netPatience = 10 * time.Second

// dialOrAsk is Dial by whichever way there is: directly, or by the proxy that the engine has put
// into the variables.
func dialOrAsk(args []string) (string, error) {
	got, err := Dial(args)
	if err == nil || os.Getenv("HTTP_PROXY") == "" || args[0] != "tcp" {
		return got, err
	}
	args[0] = "HTTP_PROXY"
	got, refused := Dial(args)
	if refused != nil {
		return "", errors.Join(err, refused)
	}
	return got + " through the proxy", nil
}

// Dial connects to WAY ADDRESS, sends a text if there is one, and reads the CANARY from there.
func Dial(args []string) (string, error) {
	c, err := Connect(args[0], args[1])
	if args[0] == "unix" {
		err = orNoSocket(err)
	}
	if err != nil {
		return "", err
	}
	defer c.Close()
	text := strings.Join(args[3:], "")
	if args[0] == "udp" {
		text = "?"
	}
	if text != "" { // whoever has answered can be gone
		if _, err := io.WriteString(c, text); err != nil {
			return "", err
		}
	}
	if got, err := ReadUntil(bufio.NewReader(c), args[2]); err != nil {
		return "", fmt.Errorf("no answer, or not the right one: %q: %w", got, err)
	}
	return "it answers", nil
}

// Connect makes a connection that bears netPatience. The way is a network, a variable that names a proxy,
// or GET, which asks the proxy of HTTP_PROXY for a URL.
func Connect(way, address string) (c net.Conn, err error) {
	switch {
	case way == "GET":
		c, err = askProxy("HTTP_PROXY", "GET http://"+address+"/", address)
	case strings.HasSuffix(way, "_PROXY"):
		c, err = byCONNECT(way, address)
	default:
		c, err = net.DialTimeout(way, address, netPatience)
	}
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Now().Add(netPatience))
}

func byCONNECT(variable, address string) (net.Conn, error) {
	c, err := askProxy(variable, "CONNECT "+address, address)
	if err != nil {
		return nil, err
	}
	answer, err := ReadUntil(c, "\r\n\r\n")
	if err != nil || !strings.Contains(answer, " 200 ") {
		c.Close()
		return nil, errors.Join(err, fmt.Errorf("the proxy says %q", answer))
	}
	return c, nil
}

// askProxy sends the head of a request to the proxy that a variable names.
func askProxy(variable, line, host string) (net.Conn, error) {
	at, err := url.Parse(os.Getenv(variable))
	if err != nil || at.Host == "" {
		return nil, errors.Join(errors.New(variable+" names no proxy"), err)
	}
	c, err := net.DialTimeout("tcp", at.Host, netPatience)
	if err != nil {
		return nil, err
	}
	authorization := ""
	if at.User != nil {
		user, _ := url.PathUnescape(at.User.String())
		authorization = "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user)) + "\r\n"
	}
	_, err = fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", line, host, authorization)
	return c, errors.Join(err, c.SetDeadline(time.Now().Add(netPatience)))
}

// request asks NAME by TLS, whoever serves it, with one more FIELD: it tells the server's certificate
// by its sum, and the answer.
func request(args []string) (string, error) {
	c, err := Connect("tcp", args[0]+":443")
	if err != nil {
		var refused error
		if c, refused = Connect("HTTP_PROXY", args[0]+":443"); refused != nil {
			return "", errors.Join(err, refused)
		}
	}
	defer c.Close()
	secure := tls.Client(c, &tls.Config{ServerName: args[0], InsecureSkipVerify: true})
	if err := secure.Handshake(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(secure.ConnectionState().PeerCertificates[0].Raw)
	fmt.Fprintf(secure, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n\r\n", args[0], args[1])
	text, _ := io.ReadAll(io.LimitReader(secure, 64<<10))
	return fmt.Sprintf("%x %q", sum, text), nil
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

// ownServer listens at NETWORK ADDRESS, and is its own client.
func ownServer(args []string) (string, error) {
	l, err := net.Listen(args[0], args[1])
	if err != nil && args[0] == "tcp" {
		err = orNoSocket(err)
	}
	if err != nil {
		return "", err
	}
	defer l.Close()
	go answer(l, "hello")
	return Dial([]string{args[0], l.Addr().String(), "hello"})
}

// serve listens at ADDRESS for somebody who reads the CANARY.
func serve(args []string) (string, error) {
	l, err := net.Listen("tcp", args[0])
	if err != nil {
		return "", err
	}
	defer l.Close()
	l.(*net.TCPListener).SetDeadline(time.Now().Add(netPatience))
	return "somebody has asked", answer(l, args[1])
}

// answer writes a text to the first client, and waits until that one hangs up.
func answer(l net.Listener, text string) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = io.WriteString(c, text); err == nil {
		c.SetReadDeadline(time.Now().Add(netPatience))
		io.Copy(io.Discard, c)
	}
	return err
}

// orNoSocket says of an error that commands of this engine make no such sockets at all, if
// that is what it says.
func orNoSocket(err error) error {
	if call, ok := errors.AsType[*os.SyscallError](err); ok && call.Syscall == "socket" && errors.Is(err, syscall.EPERM) {
		return absent("no such sockets can be made: " + err.Error())
	}
	return err
}
