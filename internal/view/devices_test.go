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
		{"/dev/fuse", Device{}, ""},
		{"/dev/kvm", Device{}, ""},
		{"/dev/net/tun", Device{}, ""},
		{"/dev/dri/renderD128", Device{}, ""},
		{"/dev/nvidia0", Device{}, ""},
		{"/dev/nvidia-uvm", Device{}, ""},
		{"/dev/kfd", Device{}, ""},
		{"/dev/dri/card0", Device{}, "no command gets"},
		{"/dev/uinput", Device{}, "no command gets"},
		{"/dev/input/event0", Device{}, "no command gets"},
		{"/dev/mem", Device{}, "no command gets"},
		{"/dev/hidraw0", Device{}, "no command gets"},
		{"/dev/loop-control", Device{}, "no command gets"},
		{"/dev/sda", Device{}, "no command gets"},
		{"/dev/nvidia-nvswitchctl", Device{}, "no command gets"},
		{"/dev/nvidia-caps/nvidia-cap1", Device{}, ""},
		{"/dev/absent", Device{Err: errors.New("no such file or directory")}, "no such file"},
		{"/dev/link", Device{Path: "/w/fuse"}, "not a device of this machine"},
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
