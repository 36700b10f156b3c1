#!/bin/sh
# Checks in a virtual machine: see README.md beside this file.
set -eu

usage() {
	echo "usage: test/vm/vm.sh [-a amd64|arm64] [-k 6.1|6.12] [-o KERNEL-OPTIONS] [-i] CHECK[:ARGUMENT]..." >&2
	exit 2
}

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
arch=amd64 kernel=6.1 options='' image_only=
while getopts a:k:o:i flag; do
	case $flag in
	a) arch=$OPTARG ;;
	k) kernel=$OPTARG ;;
	o) options=$OPTARG ;;
	i) image_only=1 ;;
	*) usage ;;
	esac
done
shift $((OPTIND - 1))
case $arch-$kernel in amd64-6.1 | amd64-6.12 | arm64-6.1 | arm64-6.12) ;; *) usage ;; esac
[ $# -gt 0 ] || [ "$image_only" ] || usage

case $arch in
amd64) qemu=qemu-system-x86_64 machine='q35' console=ttyS0 ;;
arm64) qemu=qemu-system-aarch64 machine='virt' console=ttyAMA0 ;;
esac
for program in mmdebstrap mke2fs "$qemu"; do
	PATH=$PATH:/usr/sbin:/sbin command -v "$program" >/dev/null || { echo "$program is missing: see test/vm/README.md" >&2; exit 125; }
done
PATH=$PATH:/usr/sbin:/sbin

cache=${SBXHOST_VM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/sbxhost-vm}/$arch
work=$(mktemp -d "${TMPDIR:-/tmp}/sbxhost-vm-XXXXXX")
machine_pid=
trap 'test -z "$machine_pid" || kill "$machine_pid" 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# The image: Debian 12 with systemd and both kernels, made once. The program sh of
# a hook runs with the tree as $1, as root of mmdebstrap's user namespace, so that
# mke2fs sees the owners that the machine is to see.
include=systemd-sysv,dbus-user-session,libpam-systemd,bubblewrap,git,make,jq,python3,procps,iproute2,util-linux
include=$include,linux-image-cloud-$arch,linux-image-6.12-cloud-$arch
recipe=$(echo "$include" | cat "$here/image.sh" - | cksum)
if [ "$(cat "$cache/recipe" 2>/dev/null)" != "$recipe" ]; then
	rm -rf "$cache" && mkdir -p "$cache"
	# Written by another user id than the caller's.
	mkdir "$work/image" && chmod 755 "$work" && chmod 777 "$work/image"
	mmdebstrap --quiet --mode=unshare --arch="$arch" --variant=minbase --include="$include" \
		--essential-hook="sh '$here/image.sh' before \"\$1\"" \
		--customize-hook="sh '$here/image.sh' after \"\$1\" '$work/image'" bookworm /dev/null
	cp "$work/image/"* "$cache"
	rm -rf "$work/image"
	echo "$recipe" >"$cache/recipe"
fi
[ ! "$image_only" ] || exit 0

# What is tried: the product, the tests as programs beside their testdata, the checks.
pay=$work/pay
mkdir -p "$pay/bin" "$pay/src"
export CGO_ENABLED=0 GOOS=linux GOARCH="$arch"
(cd "$top" && go build -trimpath -tags grpcnotrace -ldflags '-s -w' -o "$pay/bin/" \
	./cmd/sbxhost ./plugins/bwrap/sbxhost-engine-bwrap ./plugins/noop/sbxhost-engine-noop ./cmd/sbxhost-init)
for package in shared/seccomp internal/engine/sandboxinit internal/engine/holder shared/cmdengine internal/engine/cgroup plugins/bwrap host; do
	mkdir -p "$pay/src/$package"
	(cd "$top" && go test -c -tags grpcnotrace -o "$pay/src/$package/test" "./$package")
	[ ! -d "$top/$package/testdata" ] || cp -r "$top/$package/testdata" "$pay/src/$package/"
done
cp -r "$here/checks" "$here/guest.sh" "$pay"
for check in "$@"; do
	[ -f "$here/checks/${check%%:*}.sh" ] || { echo "there is no check $check" >&2; exit 2; }
	echo "$check"
done >"$pay/wanted"
mke2fs -q -F -t ext4 -L payload -d "$pay" "$work/payload.img" "$(($(du -sm "$pay" | cut -f1) * 5 / 4 + 32))M" >/dev/null
rm -rf "$pay"

accel='-accel kvm -cpu host'
if [ "$arch" != "$(dpkg --print-architecture)" ] || [ "${SBXHOST_VM_ACCEL:-kvm}" != kvm ] || ! [ -w /dev/kvm ]; then
	accel='-accel tcg,thread=multi -cpu max'
	# The algorithm of the architecture for signed pointers is slow to emulate.
	[ "$arch" != arm64 ] || accel=$accel,pauth-impdef=on
fi
fifo=$work/said
mkfifo "$fifo"
# Changes to the image are forgotten: each machine starts as the first one did.
# shellcheck disable=SC2086
timeout "${SBXHOST_VM_TIMEOUT:-1200}" "$qemu" -machine "$machine" $accel -smp 2 -m 2048 -nodefaults -no-user-config -display none -no-reboot \
	-kernel "$cache/vmlinuz-$kernel" -initrd "$cache/initrd-$kernel" \
	-append "root=LABEL=root rw console=$console panic=-1 quiet $options" \
	-drive "if=virtio,format=raw,snapshot=on,file=$cache/root.img" \
	-drive "if=virtio,format=raw,readonly=on,file=$work/payload.img" \
	-device virtio-rng-pci -device virtio-serial-pci -device virtserialport,name=said,chardev=said \
	-chardev "file,id=said,path=$fifo" -serial "file:$work/console" </dev/null &
machine_pid=$!
status=125
while IFS= read -r line; do
	case $line in
	'vm: exit '*) status=${line#vm: exit } ;;
	*) printf '%s\n' "$line" ;;
	esac
done <"$fifo"
wait "$machine_pid" || :
machine_pid=
[ -z "${SBXHOST_VM_CONSOLE:-}" ] || cp "$work/console" "$SBXHOST_VM_CONSOLE"
if [ "$status" = 125 ]; then
	echo "the machine ended without a result; its console:" >&2
	tail -n 40 "$work/console" >&2
fi
exit "$status"
