#!/bin/sh
# What the machine does: run by check.service, as root.
modprobe virtio_console && udevadm settle
exec >/dev/virtio-ports/said 2>&1 </dev/null
export PATH=/payload/bin:/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C.UTF-8
status=0
while read -r check; do
	echo "=== $check ($(uname -rm))"
	name=${check%%:*} argument=
	[ "$name" = "$check" ] || argument=${check#*:}
	sh "/payload/checks/$name.sh" "$argument" </dev/null || { echo "FAILED $check"; status=1; }
done </payload/wanted
echo "vm: exit $status"
