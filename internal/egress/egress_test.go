package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestParseRule(t *testing.T) {
	t.Parallel()
	web := []uint16{80, 443}
	for _, test := range []struct {
		text string
		want Rule
		back string // if it is another
	}{
		{"registry.npmjs.org", Rule{Name: "registry.npmjs.org", Ports: web}, ""},
		{"*.github.com", Rule{Name: "github.com", Subdomains: true, Ports: web}, ""},
		{"db.internal:5432", Rule{Name: "db.internal", Ports: []uint16{5432}}, ""},
		{"*.example.com:443,8443", Rule{Name: "example.com", Subdomains: true, Ports: []uint16{443, 8443}}, ""},
		{"a.example:443,80", Rule{Name: "a.example", Ports: web}, "a.example"},
		{"db.internal:5432 private", Rule{Name: "db.internal", Ports: []uint16{5432}, Private: true}, ""},
		{"nas private", Rule{Name: "nas", Ports: web, Private: true}, ""},
		{"  Example.COM.  ", Rule{Name: "example.com", Ports: web}, "example.com"},
		{"*.XN--bcher-kva.example", Rule{Name: "xn--bcher-kva.example", Subdomains: true, Ports: web}, "*.xn--bcher-kva.example"},
		{"r3---sn-4g5e.example", Rule{Name: "r3---sn-4g5e.example", Ports: web}, ""},
		{"1e100.net:65535", Rule{Name: "1e100.net", Ports: []uint16{65535}}, ""},
		{"a.0xg", Rule{Name: "a.0xg", Ports: web}, ""},
		{"!admin.example.com", Rule{Denies: true, Name: "admin.example.com"}, ""},
		{"!*.Example.com:22", Rule{Denies: true, Name: "example.com", Subdomains: true, Ports: []uint16{22}}, "!*.example.com:22"},
	} {
		got, err := ParseRule(test.text)
		if err != nil || got.Name != test.want.Name || got.Subdomains != test.want.Subdomains || got.Denies != test.want.Denies || got.Private != test.want.Private || !slices.Equal(got.Ports, test.want.Ports) {
			t.Errorf("%q: %+v, error %v", test.text, got, err)
		}
		if test.back == "" {
			test.back = test.text
		}
		if got.String() != test.back {
			t.Errorf("%q becomes %q", test.text, got)
		}
	}
}

func TestParseRuleRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                   "is empty",
		" ":                                  "is empty",
		".":                                  "has no name",
		"!":                                  "has no name",
		"!!a.example":                        "no name of a host",
		"!a.example private":                 `leave out the word "private"`,
		"!*":                                 "would allow every name",
		":443":                               "has no name",
		"*":                                  "network = true",
		"*:443":                              "network = true",
		"*.":                                 "has no name",
		"*.com":                              "*.example.com",
		"*.*.example.com":                    "the whole first part",
		"a.*.example":                        "the whole first part",
		"*a.example":                         "the whole first part",
		"a..example":                         "no name of a host",
		".a.example":                         "no name of a host",
		"a.example..":                        "no name of a host",
		"-a.example":                         `"-a"`,
		"a-.example":                         `"a-"`,
		"_dmarc.example":                     "no name of a host",
		"a\x1b.example":                      "no name of a host",
		"a!b.example":                        "no name of a host",
		"bücher.example":                     `such as "xn--bcher-kva.example"`,
		"a.example。":                         "no name of a host",
		"\u2488.example":                     "no name of a host",
		"\u0130.example":                     "no name of a host", // not i.example
		"!\u212a.example":                    "no name of a host", // not k.example
		"\xff.example":                       "no name of a host",
		strings.Repeat("a", 64) + ".example": "no name of a host",
		strings.Repeat("abc.", 63) + "de":    "no name of a host",
		"*." + strings.Repeat("abc.", 62) + "abcd": "too long",
		"1.2.3.4":                   "an IP address",
		"1.2.3.4:80":                "an IP address",
		"1.2.3.4 private":           "an IP address",
		"127.1":                     "an IP address",
		"0x7f.1":                    "an IP address",
		"127.0.0.0x1":               "an IP address",
		"0x7f000001":                "an IP address",
		"0x":                        "an IP address",
		"2130706433":                "an IP address",
		"017700000001.":             "an IP address",
		"１２７.０.０.１":                 "no name of a host",
		"::1":                       "an IP address",
		"[::1]:80":                  "an IP address",
		"[1.2.3.4]":                 "an IP address",
		"fe80::1%eth0":              "an IP address",
		"fd00:1:2:3:4:5:6:7":        "an IP address",
		"*.1.2.3.4":                 "an IP address",
		"localhost:5432":            "host_ports",
		"a.localhost":               "host_ports",
		"https://a.example":         `without "https://"`,
		"a.example/path":            "without a path",
		"me@a.example":              "without a user",
		"a.example b.example":       "a space",
		"a.example private private": "a space",
		"a.example Private":         "a space",
		"a.example:":                `has ""`,
		"a.example:0":               "port 0",
		"a.example:080":             `has "080"`,
		"a.example:+80":             `has "+80"`,
		"a.example:65536":           `has "65536"`,
		"a.example:80-90":           `has "80-90"`,
		"a.example:80,":             `has ""`,
		"a.example:80,443,80":       "port 80 twice",
		"a.example:80:443":          "two colons",
		"a.example:https":           `has "https"`,
	} {
		r, err := ParseRule(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, error %v, which should say %q", text, r, err, want)
		} else if !strings.HasPrefix(err.Error(), `"`) {
			t.Errorf("%q is not quoted by %q", text, err)
		}
	}
}

func TestParseRules(t *testing.T) {
	t.Parallel()
	_, err := ParseRules([]string{"a.example", "*", "b.example", "1.2.3.4"})
	if err == nil || !strings.HasPrefix(err.Error(), `network[1]: "*" `) || !strings.Contains(err.Error(), "\nnetwork[3]: \"1.2.3.4\" ") {
		t.Errorf("%v", err)
	}
	if rs, err := ParseRules(nil); len(rs) != 0 || err != nil {
		t.Errorf("%v, error %v", rs, err)
	}
}

func rules(t *testing.T, texts ...string) Rules {
	t.Helper()
	rs, err := ParseRules(texts)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func TestPorts(t *testing.T) {
	t.Parallel()
	rs := rules(t, "a.example", "*.a.example:443,8443", "x.a.example:8443 private", "b.example:22")
	for name, want := range map[string]string{
		"a.example":       "80 443",
		"A.Example.":      "80 443",
		"y.a.example":     "443 8443",
		"y_z.w.a.example": "443 8443",
		"x.a.example":     "443 8443!",
		"b.example":       "22",
		"xa.example":      "",
		".a.example":      "",
		"..a.example":     "",
		"a.example..":     "",
		"a.example.b":     "",
		"y\x00.a.example": "",
		"y .a.example":    "",
		"ü.a.example":     "",
		"example":         "",
		"":                "",
		".":               "",
		strings.Repeat("abcd.", 50) + "a.example": "",
	} {
		var got []string
		for _, p := range rs.Ports(name) {
			number := fmt.Sprint(p.Number)
			if p.Private {
				number += "!"
			}
			got = append(got, number)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	if got := (Rules{{Name: "a.example"}, {Subdomains: true, Ports: []uint16{80}}, {Ports: []uint16{80}}}).Ports("a.example"); got != nil {
		t.Errorf("rules that nobody filled in allow %v", got)
	}
}

func TestDenied(t *testing.T) {
	t.Parallel()
	rs := rules(t, "!admin.a.example", "*.a.example:80,443,8443", "!*.b.a.example:8443", "c.example")
	for target, want := range map[string]string{
		"x.a.example:443": "", "admin.a.example:443": ReasonDenied, "ADMIN.a.example.:0": ReasonDenied, "x.admin.a.example:443": "",
		"b.a.example:8443": "", "x.b.a.example:8443": ReasonDenied, "x.b.a.example:80": "", "x.b.a.example:22": ReasonPort(22),
		"a.example:80": ReasonUnlisted, "c.example:80": "", "d.example:0": ReasonUnlisted,
	} {
		name, number, _ := strings.Cut(target, ":")
		port, _ := strconv.Atoi(number)
		if rs.Allow(name, uint16(port)) {
			if want != "" {
				t.Errorf("%s is allowed, want %q", target, want)
			}
		} else if got := rs.Refusal(name, uint16(port)); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	for i, texts := range [][]string{{"!a.example", "*.a.example"}, {"a.example:80", "!a.example:443"}, {"!*.a.example", "a.example"}, {"!a.example"}} {
		if rules(t, texts...).Idle() < 0 {
			t.Errorf("%d: %q denies something", i, texts)
		}
	}
	for _, texts := range [][]string{{"!*.a.example", "x.y.a.example"}, {"*.a.example", "!*.a.example:80"}, {"*.a.example", "!*.x.a.example"}, {"a.example"}} {
		if i := rules(t, texts...).Idle(); i >= 0 {
			t.Errorf("%q: %d denies nothing", texts, i)
		}
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	rs := rules(t, "*.example.org:443", "a.example.org:443,444", "a.example.org:443 private")
	for name, ports := range map[string][]uint16{
		"a.example.org": {443, 444}, "A.example.org.": {443, 444}, "b.example.org": {443}, "example.org": nil, "a.example.org.b": nil, "": nil,
	} {
		for _, port := range []uint16{80, 443, 444} {
			if got := rs.Allow(name, port); got != slices.Contains(ports, port) {
				t.Errorf("%q, port %d: %v", name, port, got)
			}
		}
	}
}

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	own := []netip.Prefix{netip.MustParsePrefix("93.184.216.1/32"), netip.MustParsePrefix("2a00::1/128")}
	for _, test := range []struct {
		is      string // "" is allowed
		private bool   // allowed with the word
		addrs   string
	}{
		{"", true, "1.1.1.1 93.184.216.34 11.0.0.0 9.255.255.255 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.0.0 192.169.0.0 198.17.255.255 198.20.0.0 223.255.255.255 2606:4700::1111 ::ffff:1.1.1.1 64:ff9b::1.1.1.1 2a00::5efe:101:101 2001:200::1 2003::1 3ffe::1"},
		{"address of this machine", true, "93.184.216.1 ::ffff:93.184.216.1 64:ff9b::93.184.216.1 2a00::1"},
		{"RFC 1918", true, "10.0.0.0 10.255.255.255 172.16.0.1 172.31.255.255 192.168.0.1 ::ffff:10.0.0.1 64:ff9b::10.0.0.1 2a00::5efe:a00:1 2a00::200:5efe:a00:1"},
		{"CGNAT", true, "100.64.0.0 100.127.255.255"},
		{"loopback", true, "127.0.0.1 127.255.255.255 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1"},
		{"link-local", true, "169.254.0.0 169.254.1.1 169.254.255.255 fe80::1 febf::1"},
		{"ULA", true, "fc00::1 fdff::1"},
		{"site-local", true, "fec0::1 feff::1"},
		{"documentation", true, "192.0.2.1 198.51.100.1 203.0.113.1 2001:db8::1 3fff::1"},
		{"for protocols", true, "192.0.0.1 192.0.0.170 2001:1::1 2001:1ff::1"},
		{"AS112", true, "192.31.196.1 192.175.48.1 2620:4f:8000::1"},
		{"RFC 7450", true, "192.52.193.1"},
		{"6to4", true, "192.88.99.1"},
		{"metadata", false, "169.254.169.254 169.254.170.2 169.254.170.23 100.100.100.200 168.63.129.16 192.0.0.192 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fe80::a9fe:a9fe ::ffff:169.254.169.254 64:ff9b::169.254.169.254 2a00::5efe:a9fe:a9fe"},
		{"unspecified", false, "0.0.0.0 ::ffff:0.0.0.0 0.0.0.1 0.255.255.255"},
		{"sandboxes", false, "198.18.0.1 198.19.255.255 ::ffff:198.18.0.1 64:ff9b::198.18.0.1"},
		{"multicast", false, "224.0.0.1 239.255.255.255"},
		{"public addresses", false, ":: ::2 ::7f00:1 ::ffff:0:7f00:1 64:ff9b:1::1 64:ff9b:1:ffff::1 100::1 100:0:0:1::1 5f00::1 ff02::1 ff0e::1"},
		{"broadcast", false, "255.255.255.255"},
		{"reserved", false, "240.0.0.1 255.255.255.254"},
		{"Teredo", false, "2001::1 2001:0:ffff::1"},
		{"benchmarks", false, "2001:2::1"},
		{"6to4", false, "2002::1 2002:a00:1::1 2002:101:101::1"},
		{"2000::/3", false, "4000::1 1fff::1 fe00::1 64:ff9b:0:1::1 64:ff9b:2::1"},
		{"one link", false, "fe80::1%lo 2606:4700::1111%eth0"},
	} {
		for text := range strings.SplitSeq(test.addrs, " ") {
			addr := netip.MustParseAddr(text)
			err := CheckAddress(addr, false, own)
			if (err == nil) != (test.is == "") || err != nil && !strings.Contains(err.Error(), test.is) {
				t.Errorf("%s: %v, want %q", text, err, test.is)
			}
			if err := CheckAddress(addr, true, own); (err == nil) != test.private {
				t.Errorf("%s with the word: %v", text, err)
			}
		}
	}
	if err := CheckAddress(netip.MustParseAddr("10.0.0.1"), false, nil); err.Error() != "10.0.0.1 is private (RFC 1918)" {
		t.Error(err)
	}
	if CheckAddress(netip.Addr{}, true, nil) == nil {
		t.Error("no address")
	}
	for text, want := range map[string]bool{"198.18.0.0": true, "198.19.255.255": true, "198.17.255.255": false, "198.20.0.0": false, "::ffff:198.18.0.1": true, "::198.18.0.1": false, "1.198.18.0": false} {
		if Fake(netip.MustParseAddr(text)) != want {
			t.Error(text)
		}
	}
	if Fake(netip.Addr{}) {
		t.Error("no address is one")
	}
}

func TestParsePublish(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"3000":                   "127.0.0.1:3000 3000",
		"8080:80":                "127.0.0.1:8080 80",
		"0:80":                   "127.0.0.1:0 80",
		"0.0.0.0:8080:80":        "0.0.0.0:8080 80",
		"[::1]:8080:80":          "[::1]:8080 80",
		"[::]:80:80":             "[::]:80 80",
		"127.0.0.1:80:80":        "127.0.0.1:80 80",
		"":                       "",
		"0":                      "",
		"80:0":                   "",
		":80":                    "",
		"80:":                    "",
		"::1:8080:80":            "",
		"[127.0.0.1]:80:80":      "",
		"[::1:8080:80":           "",
		"[fe80::1%lo]:80:80":     "",
		"[::ffff:1.2.3.4]:80:80": "",
		"localhost:8080:80":      "",
		"a:80":                   "",
		"65536":                  "",
		"1:2:3:4":                "",
		"080":                    "",
		"80 ":                    "",
	} {
		p, err := ParsePublish(text)
		if want == "" {
			if err == nil || !strings.HasPrefix(err.Error(), `"`) {
				t.Errorf("%q: %v, error %v", text, p, err)
			}
			continue
		}
		if got := fmt.Sprint(p.Listen, p.Inside); err != nil || got != want {
			t.Errorf("%q: %q, error %v", text, got, err)
		}
		if again, err := ParsePublish(p.String()); err != nil || again != p {
			t.Errorf("%q becomes %q: %v, error %v", text, p, again, err)
		}
	}
}
