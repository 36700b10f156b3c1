package view

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
