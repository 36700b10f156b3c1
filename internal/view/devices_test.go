package view

import (
	"path"
	"strings"
	"testing"
)

func TestDevices(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want string // of the error
	}{
		{"/dev/fuse", ""},
		{"/dev/kvm", ""},
		{"/dev/net/tun", ""},
		{"/dev/dri/renderD128", ""},
		{"/dev/nvidia0", ""},
		{"/dev/nvidia-uvm", ""},
		{"/dev/kfd", ""},
		{"/dev/dri/card0", "no command gets"},
		{"/dev/uinput", "no command gets"},
		{"/dev/input/event0", "no command gets"},
		{"/dev/mem", "no command gets"},
		{"/dev/hidraw0", "no command gets"},
		{"/dev/loop-control", "no command gets"},
		{"/dev/sda", "no command gets"},
		{"/dev/nvidia-nvswitchctl", "no command gets"},
		{"/dev/nvidia-caps/nvidia-cap1", ""},
		{"/dev/absent", "no character device"},
		{"/dev/link", "that no command gets"},
		{"/dev/../w", `".."`},
	} {
		lines := []string{"/w/fuse device", "/dev/link -> /w/fuse"}
		if path.Base(tt.text) != "absent" && path.Base(tt.text) != "link" {
			lines = append(lines, tt.text+" device")
		}
		v := &View{in: input(Definition{Devices: []string{tt.text}}), facts: newMachine(lines...)}
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
