package egress

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// FuzzParseRule: a rule survives being written down, and allows the names that it shows
// and no others.
func FuzzParseRule(f *testing.F) {
	for _, text := range []string{"a.example", "*.A.example:443,80 private", "bücher.example:1", "xn--bcher-kva.example", "127.1", "!a.example:22", "[::1]:80", "１２７。1", "a_b.example", "*.com"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseRule(text)
		if err != nil {
			if strings.ContainsFunc(err.Error(), func(c rune) bool { return c < ' ' || c == 0x7f }) || len(err.Error()) > 1200 {
				t.Errorf("%q", err)
			}
			return
		}
		again, err := ParseRule(r.String())
		if err != nil || again.Name != r.Name || again.Subdomains != r.Subdomains || again.Denies != r.Denies || again.Private != r.Private || !slices.Equal(again.Ports, r.Ports) {
			t.Fatalf("%q: %+v becomes %q: %+v, error %v", text, r, r, again, err)
		}
		if name, ok := Canonical(r.Name); !ok || name != r.Name || len(r.Ports) == 0 && !r.Denies {
			t.Errorf("%q: %+v", text, r)
		}
		if _, err := netip.ParseAddr(r.Name); err == nil {
			t.Errorf("%q is the address %q", text, r.Name)
		}
		if r.Denies {
			return
		}
		for name, want := range map[string]bool{
			r.Name: !r.Subdomains, strings.ToUpper(r.Name) + ".": !r.Subdomains,
			"x." + r.Name: r.Subdomains, "x" + r.Name: false, "." + r.Name: false, r.Name + ".x": false, r.Name + "..": false,
		} {
			if got := (Rules{r}).Ports(name); (len(got) > 0) != want {
				t.Errorf("%q allows %q: %v", r, name, got)
			}
			if got := (Rules{r}).Allow(name, r.Ports[0]); got != want {
				t.Errorf("%q has %q: %v", r, name, got)
			}
		}
	})
}

// FuzzCheckAddress: what may be reached without a word may be with it, and the standard
// library finds nothing special in it.
func FuzzCheckAddress(f *testing.F) {
	for _, text := range []string{"1.1.1.1", "10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a00:1", "2606:4700::1111", "2002:a00:1::", "fe80::1"} {
		b := netip.MustParseAddr(text).As16()
		f.Add(b[:])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		addr, ok := netip.AddrFromSlice(b)
		if !ok {
			return
		}
		open, trusted := CheckAddress(addr, false, nil), CheckAddress(addr, true, nil)
		if open == nil && trusted != nil {
			t.Errorf("%s: %v", addr, trusted)
		}
		plain := addr.Unmap()
		if open == nil && (!plain.IsGlobalUnicast() || plain.IsPrivate() || plain.IsLoopback() || plain.IsLinkLocalUnicast()) {
			t.Errorf("%s is allowed", addr)
		}
		if trusted == nil && (plain.IsUnspecified() || plain.IsMulticast() || Fake(plain)) {
			t.Errorf("%s is allowed with the word", addr)
		}
		if CheckAddress(addr, false, []netip.Prefix{netip.PrefixFrom(plain, plain.BitLen())}) == nil {
			t.Errorf("%s is allowed, and this machine's", addr)
		}
	})
}

// FuzzParsePublish: what listens is what was written.
func FuzzParsePublish(f *testing.F) {
	for _, text := range []string{"3000", "8080:80", "0.0.0.0:8080:80", "[::1]:0:80", "[::]:1:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePublish(text)
		if err != nil {
			return
		}
		if again, err := ParsePublish(p.String()); err != nil || again != p {
			t.Errorf("%q becomes %q: %v, error %v", text, p, again, err)
		}
		if !p.Listen.Addr().IsLoopback() && !strings.Contains(text, p.Listen.Addr().String()) && !strings.Contains(text, "[") {
			t.Errorf("%q listens on %s", text, p.Listen)
		}
	})
}
