package actor

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// networkActions speak to somebody.
func networkActions() map[string]action {
	return map[string]action{
		"dial": dialOrAsk,
		"by-each-proxy": func(args []string) (string, error) { // ADDRESS CANARY
			for _, name := range proxyVariables {
				if _, err := throughProxy(name, args[0], args[1], ""); err != nil {
					return "", fmt.Errorf("%s: %w", name, err)
				}
			}
			return "it answers through each", nil
		},
		"by-any-proxy": func(args []string) (string, error) { // CANARY ADDRESS...
			return each(args[1:], func(address string) (string, error) {
				return each(proxyVariables, func(name string) (string, error) {
					got, err := throughProxy(name, address, args[0], "")
					if err != nil && name == "HTTP_PROXY" {
						got, err = fetched(address, args[0])
					}
					return got, err
				})
			})
		},
		"request":      request,
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
	if err == nil || os.Getenv("HTTP_PROXY") == "" || args[0] != "tcp" {
		return got, err
	}
	got, refused := throughProxy("HTTP_PROXY", args[1], args[2], strings.Join(args[3:], ""))
	if refused != nil {
		return "", errors.Join(err, refused)
	}
	return got + " through the proxy", nil
}

// proxyVariables name proxies.
var proxyVariables = []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}

// dialProxy connects to the proxy that a variable names.
func dialProxy(variable string) (*url.URL, net.Conn, error) {
	proxy, err := url.Parse(os.Getenv(variable))
	if err != nil || proxy.Host == "" {
		return nil, nil, errors.Join(errors.New("it names no proxy"), err)
	}
	c, err := net.DialTimeout("tcp", proxy.Host, netPatience)
	if err == nil {
		c.SetDeadline(time.Now().Add(netPatience))
	}
	return proxy, c, err
}

// throughProxy has the proxy of a variable connect to an address, as the variable's URL says.
func throughProxy(variable, address, canary, text string) (string, error) {
	proxy, c, err := dialProxy(variable)
	if err != nil {
		return "", err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	ask := askCONNECT
	if strings.HasPrefix(proxy.Scheme, "socks5") {
		ask = askSOCKS
	}
	if err := ask(proxy, c, in, address); err != nil {
		return "", err
	}
	if err := send(c, text); err != nil {
		return "", err
	}
	return answers(in, canary)
}

// request asks NAME by TLS, whoever serves it, with one more FIELD: it tells the server's certificate
// by its sum, and the answer.
func request(args []string) (string, error) {
	address := args[0] + ":443"
	c, err := net.DialTimeout("tcp", address, netPatience)
	if err != nil {
		proxy, through, refused := dialProxy("HTTP_PROXY")
		if refused == nil {
			refused = askCONNECT(proxy, through, bufio.NewReader(through), address)
		}
		if c = through; refused != nil {
			return "", errors.Join(err, refused)
		}
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(netPatience))
	secure := tls.Client(c, &tls.Config{ServerName: args[0], InsecureSkipVerify: true})
	if err := secure.Handshake(); err != nil {
		return "", err
	}
	sum := sha256.Sum256(secure.ConnectionState().PeerCertificates[0].Raw)
	fmt.Fprintf(secure, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n\r\n", args[0], args[1])
	text, _ := io.ReadAll(io.LimitReader(secure, 64<<10))
	return fmt.Sprintf("%x %q", sum, text), nil
}

// authorization is the field with the proxy's password, if it has one.
func authorization(proxy *url.URL) string {
	password, ok := proxy.User.Password()
	if !ok {
		return ""
	}
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password)) + "\r\n"
}

func askCONNECT(proxy *url.URL, c net.Conn, in *bufio.Reader, address string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n%s\r\n", address, authorization(proxy)); err != nil {
		return err
	}
	status, err := in.ReadString('\n')
	if err != nil || !strings.Contains(status, " 200 ") {
		return errors.Join(err, fmt.Errorf("the proxy says %q", status))
	}
	for line := status; strings.TrimSpace(line) != "" && err == nil; {
		line, err = in.ReadString('\n')
	}
	return err
}

// askSOCKS asks by RFC 1928, with a password of RFC 1929 if the proxy has one.
func askSOCKS(proxy *url.URL, c net.Conn, in *bufio.Reader, address string) error {
	const version, connect, byName, byAddress = 5, 1, 3, 1
	says := func(ask []byte, n int) ([]byte, error) {
		if _, err := c.Write(ask); err != nil {
			return nil, err
		}
		reply := make([]byte, n)
		_, err := io.ReadFull(in, reply)
		if err == nil && reply[1] != 0 {
			err = fmt.Errorf("the proxy says %d", reply[1])
		}
		return reply, err
	}
	counted := func(text string) []byte { return append([]byte{byte(len(text))}, text...) }
	host, text, err := net.SplitHostPort(address)
	tried(err)
	if password, ok := proxy.User.Password(); ok {
		const method = 2
		if _, err := c.Write([]byte{version, 1, method}); err != nil {
			return err
		}
		reply := make([]byte, 2)
		if _, err := io.ReadFull(in, reply); err != nil || reply[1] != method {
			return errors.Join(err, fmt.Errorf("the proxy says %d", reply[1]))
		}
		_, err = says(slices.Concat([]byte{1}, counted(proxy.User.Username()), counted(password)), 2)
	} else {
		_, err = says([]byte{version, 1, 0}, 2)
	}
	if err != nil {
		return err
	}
	to := append([]byte{byName}, counted(host)...)
	if ip := net.ParseIP(host).To4(); ip != nil {
		to = append([]byte{byAddress}, ip...)
	}
	_, err = says(binary.BigEndian.AppendUint16(slices.Concat([]byte{version, connect, 0}, to), uint16(number(text))), 10)
	return err
}

// fetched asks the proxy for a whole URL.
func fetched(address, canary string) (string, error) {
	proxy, c, err := dialProxy("HTTP_PROXY")
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := fmt.Fprintf(c, "GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n%s\r\n", address, authorization(proxy)); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(c, 64<<10))
	if !strings.Contains(string(text), canary) {
		return "", errors.Join(err, fmt.Errorf("the proxy says %q", text))
	}
	return "it answers", nil
}

// Dial connects to NETWORK ADDRESS, sends a text if there is one, and reads the CANARY from there.
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
	text := strings.Join(args[3:], "")
	if args[0] == "udp" {
		text = "?"
	}
	if err := send(c, text); err != nil {
		return "", err
	}
	return answers(c, args[2])
}

// send sends a text. Of none it says nothing: whoever has answered can be gone.
func send(c net.Conn, text string) error {
	if text == "" {
		return nil
	}
	_, err := io.WriteString(c, text)
	return err
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
