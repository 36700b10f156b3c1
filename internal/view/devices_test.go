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
		{"/dev/fuse", Device{Minor: 229, Driver: "misc"}, ""},
		{"/dev/kvm", Device{Minor: 232, Driver: "misc"}, ""},
		{"/dev/net/tun", Device{Minor: 200, Driver: "misc"}, ""},
		{"/dev/dri/renderD128", Device{Minor: 128, Driver: "drm"}, ""},
		{"/dev/nvidia0", Device{Driver: "nvidia"}, ""},
		{"/dev/nvidia-uvm", Device{Driver: "nvidia-uvm"}, ""},
		{"/dev/kfd", Device{Driver: "kfd"}, ""},
		{"/dev/dri/card0", Device{Driver: "drm"}, "no command gets"},
		{"/dev/uinput", Device{Minor: 223, Driver: "misc"}, "no command gets"},
		{"/dev/input/event0", Device{Minor: 64, Driver: "input"}, "no command gets"},
		{"/dev/mem", Device{Minor: 1, Driver: "mem"}, "no command gets"},
		{"/dev/hidraw0", Device{Driver: "hidraw"}, "no command gets"},
		{"/dev/loop-control", Device{Minor: 237, Driver: "misc"}, "no command gets"},
		{"/dev/sda", Device{Minor: 229}, "no command gets"}, // a block device
		{"/dev/absent", Device{Err: errors.New("no such file or directory")}, "no such file"},
		{"/dev/link", Device{Path: "/w/fuse", Minor: 229}, "not a device of this machine"},
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
