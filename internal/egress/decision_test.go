package egress

import (
	"testing"
	"time"
)

func TestDecision(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]Decision{
		"network: refused a.example: no rule allows it":                                               {Name: "a.example", Reason: "no rule allows it"},
		"network: refused a.example (a command of this session): no rule":                             {Name: "a.example", Source: OfSession, Reason: "no rule"},
		"network: refused a.example:22: no rule":                                                      {Name: "a.example", Port: 22, Reason: "no rule"},
		"network: could not reach a.example:80: connection refused":                                   {Name: "a.example", Port: 80, Allowed: true, Reason: "connection refused", Address: "192.0.2.1:80", Duration: time.Second},
		"network: reached a.example:443 (192.0.2.1): 3 connections, 1 bytes sent, 2 received, 1.003s": {Name: "a.example", Port: 443, Allowed: true, Address: "192.0.2.1", Connections: 3, Sent: 1, Received: 2, Duration: 1003 * time.Millisecond},
	} {
		if got := d.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := ParseDecision(d.Details()); got != d {
			t.Errorf("%+v, want %+v", got, d)
		}
	}
	if got := ParseDecision(map[string]string{"port": "65536", "sent": "-1", "allowed": "perhaps"}); got != (Decision{Port: 65535}) && got != (Decision{}) {
		t.Errorf("%+v", got)
	}
}
