package view

import (
	"fmt"
	"path"
	"slices"
)

const nvidia = "computing by a graphics processor of NVIDIA: its driver, which is not part of the kernel's tree"

type deviceKind struct{ pattern, gives string }

// deviceKinds are the devices that commands may have, and what each gives. Others are
// refused: input and uinput devices read and make key strokes, hidraw and usb reach attached
// hardware, and block devices and mem reach all stored data.
var deviceKinds = [...]deviceKind{
	{"/dev/fuse", "file systems that a command serves itself; to mount one takes nested_userns as well"},
	{"/dev/kvm", "virtual machines: a large part of the kernel, which the filter of system calls does not see"},
	{"/dev/net/tun", "interfaces of the network, of a network namespace in which the command has privileges: that takes nested_userns as well"},
	{"/dev/dri/renderD*", "rendering and computing by a graphics processor: its driver in the kernel, and memory that other users of it may not have cleared"},
	{"/dev/nvidia[0-9]*", nvidia},
	{"/dev/nvidiactl", nvidia},
	{"/dev/nvidia-modeset", nvidia},
	{"/dev/nvidia-uvm*", nvidia},
	{"/dev/nvidia-caps/*", nvidia},
	{"/dev/kfd", "computing by a graphics processor of AMD: its driver in the kernel"},
}

// showDevices finds the devices that commands have.
func (v *View) showDevices() error {
	for i, text := range v.in.Devices {
		attribute, way := fmt.Sprintf("devices[%d]", i), v.facts.Follow(text)
		if err := v.checkText(attribute, text); err != nil {
			return err
		}
		kind := slices.IndexFunc(deviceKinds[:], func(k deviceKind) bool {
			ok, _ := path.Match(k.pattern, way.End)
			return ok
		})
		switch {
		case way.Err != nil:
			return Invalid(attribute, fmt.Sprintf("%q: %v", text, way.Err), "")
		case way.Kind != CharDevice:
			return invalidf(attribute, "leave it out if this machine does not have it", "there is no character device %q", text)
		case kind < 0:
			return invalidf(attribute, "docs/configuration.md lists the allowed ones: fuse, kvm, net/tun, render nodes of dri, and those of graphics processors for computing",
				"%q is a device that no command gets", text)
		case slices.Contains(v.Devices, way.End):
			return Invalid(attribute, "it is in the list already", "")
		}
		v.Remarks = append(v.Remarks, fmt.Sprintf("%s: %s gives %s", attribute, path.Clean(text), deviceKinds[kind].gives))
		v.Devices = append(v.Devices, way.End)
	}
	return nil
}
