#!/bin/sh
# Makes of Debian's tree what vm.sh boots; run by mmdebstrap, before and after the
# packages are set up.
set -eu
tree=$2
case $1 in
before)
	# An initrd for this one machine.
	mkdir -p "$tree/etc/initramfs-tools/conf.d" "$tree/usr/share/initramfs-tools/modules.d"
	echo 'MODULES=list' >"$tree/etc/initramfs-tools/conf.d/vm"
	printf '%s\n' virtio_pci virtio_blk ext4 >"$tree/usr/share/initramfs-tools/modules.d/vm"
	;;
after)
	out=$3
	echo sbxhost-vm >"$tree/etc/hostname"
	echo '127.0.0.1 localhost sbxhost-vm' >"$tree/etc/hosts"
	echo 'LABEL=root / ext4 rw 0 1' >"$tree/etc/fstab"
	chroot "$tree" useradd -m -u 1000 -s /bin/bash dev
	# Her service manager is there from the start, as if she had logged in.
	mkdir -p "$tree/var/lib/systemd/linger" "$tree/payload"
	: >"$tree/var/lib/systemd/linger/dev"
	cat >"$tree/etc/systemd/system/check.service" <<-UNIT
		[Unit]
		After=basic.target network.target systemd-user-sessions.service user@1000.service
		[Service]
		Type=oneshot
		TimeoutStartSec=infinity
		ExecStartPre=/bin/mount -o ro LABEL=payload /payload
		ExecStart=/bin/sh /payload/guest.sh
		ExecStopPost=/bin/systemctl --no-block poweroff
		[Install]
		WantedBy=multi-user.target
	UNIT
	chroot "$tree" systemctl --quiet enable check.service
	chroot "$tree" systemctl --quiet mask apt-daily.timer apt-daily-upgrade.timer e2scrub_reap.service systemd-networkd-wait-online.service
	for kernel in 6.1 6.12; do
		for file in vmlinuz initrd.img; do
			cp "$tree/boot/$file-$kernel".[0-9]* "$out/${file%.img}-$kernel"
		done
	done
	rm -rf "$tree/boot" "$tree/var/cache/apt" "$tree/var/lib/apt/lists"
	mkdir -p "$tree/boot" "$tree/var/cache/apt/archives/partial" "$tree/var/lib/apt/lists/partial"
	# Without what mmdebstrap has mounted in the tree, such as /proc.
	mount --bind "$tree" "$tree/mnt"
	mke2fs -q -t ext4 -L root -d "$tree/mnt" "$out/root.img" 2G >/dev/null
	umount "$tree/mnt"
	chmod 644 "$out"/*
	;;
esac
