package view

import (
	"errors"
	"strings"
	"testing"
)

func TestDevices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		d    Device
		want string // of the error
	}{
		{"/dev/fuse", Device{Character: true, Major: 10, Minor: 229, Driver: "misc"}, ""},
		{"/dev/kvm", Device{Character: true, Major: 10, Minor: 232, Driver: "misc"}, ""},
		{"/dev/net/tun", Device{Character: true, Major: 10, Minor: 200, Driver: "misc"}, ""},
		{"/dev/dri/renderD128", Device{Character: true, Major: 226, Minor: 128, Driver: "drm"}, ""},
		{"/dev/nvidia0", Device{Character: true, Major: 195, Driver: "nvidia"}, ""},
		{"/dev/nvidia-uvm", Device{Character: true, Major: 511, Driver: "nvidia-uvm"}, ""},
		{"/dev/kfd", Device{Character: true, Major: 240, Driver: "kfd"}, ""},
		{"/dev/dri/card0", Device{Character: true, Major: 226, Driver: "drm"}, "no command gets"},
		{"/dev/uinput", Device{Character: true, Major: 10, Minor: 223, Driver: "misc"}, "no command gets"},
		{"/dev/input/event0", Device{Character: true, Major: 13, Minor: 64, Driver: "input"}, "no command gets"},
		{"/dev/mem", Device{Character: true, Major: 1, Minor: 1, Driver: "mem"}, "no command gets"},
		{"/dev/hidraw0", Device{Character: true, Major: 244, Driver: "hidraw"}, "no command gets"},
		{"/dev/loop-control", Device{Character: true, Major: 10, Minor: 237, Driver: "misc"}, "no command gets"},
		{"/dev/sda", Device{Major: 10, Minor: 229}, "no command gets"}, // a block device of the same number
		{"/dev/absent", Device{Err: errors.New("no such file or directory")}, "no such file"},
		{"/dev/link", Device{Path: "/w/fuse", Character: true, Major: 10, Minor: 229}, "not a device of this machine"},
		{"/dev/../w", Device{}, `".."`},
	} {
		if tt.d.Path == "" {
			tt.d.Path = tt.text
		}
		in := input(Definition{Devices: []string{tt.text}})
		in.Device = []Device{tt.d}
		v := newView(in, newMachine("/w"))
		err := v.showDevices()
		list := v.Devices
		switch {
		case tt.want != "":
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "devices[0]") {
				t.Errorf("%s: %q, error %v, want %q", tt.text, list, err, tt.want)
			}
		case err != nil || len(list) != 1 || len(v.Remarks) != 1:
			t.Errorf("%s: %q, %q, error %v", tt.text, list, v.Remarks, err)
		}
	}
}
