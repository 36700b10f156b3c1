package config

import (
	"fmt"
	"math"
	"net/netip"
	"strconv"

	"github.com/zclconf/go-cty/cty"

	"github.com/sbxhost/sbxhost/host"
	"github.com/sbxhost/sbxhost/internal/egress"
)

// network is true, false or a list of names.
func (d *decoder) network(it item) (n host.Network) {
	switch ty := it.val.Type(); {
	case isList(ty):
		n.Names = d.texts(it, func(e item, s string) bool {
			return d.reads(e, func() error { _, err := egress.ParseRule(s); return err })
		})
	case ty == cty.Bool:
		n.Host = it.val.True()
	default:
		d.wrongType(it, `true, false or a list of names, such as ["registry.npmjs.org"]`)
	}
	return n
}

// published are ports in the form of package egress, or numbers.
func (d *decoder) published(it item) []string {
	listens := map[netip.AddrPort]string{}
	return d.good(it, func(e item) (s string, ok bool) {
		if e.val.Type() == cty.Number {
			var n uint64
			n, ok = d.count(e, 1)
			s = strconv.FormatUint(n, 10)
		} else {
			s, ok = d.text(e)
		}
		return s, ok && d.reads(e, func() error {
			p, err := egress.ParsePublish(s)
			if first := listens[p.Listen]; err == nil && first != "" && p.Listen.Port() != 0 {
				return fmt.Errorf("%s is already the address of %s", p.Listen, first)
			}
			listens[p.Listen] = e.name
			return err
		})
	})
}

// reads reports a parser's error about a value.
func (d *decoder) reads(it item, parse func() error) bool {
	err := parse()
	switch {
	case err != nil && it.hidden:
		d.invalid(it, "the value cannot be read")
	case err != nil:
		d.invalid(it, "%v", err)
	}
	return err == nil
}

func (d *decoder) ports(it item) (ports []uint16) {
	list, _ := d.elements(it)
	for _, e := range list {
		if n, ok := d.count(e, 1); ok && n > math.MaxUint16 {
			d.invalid(e, "%d is not a port: the highest is 65535", n)
		} else if ok {
			ports = append(ports, uint16(n))
		}
	}
	return ports
}
