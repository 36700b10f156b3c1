#!/bin/sh
# Installs bubblewrap, for the tests of that engine, by the system's package manager where it is missing.
set -eu
[ "$(uname -s)" = Linux ] || exit 0
for path in /usr/bin/bwrap /usr/local/bin/bwrap /bin/bwrap; do
	[ -x "$path" ] && exit 0
done

as_root=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null 2>&1 || {
		echo "bubblewrap is not installed, and installing it needs root: install the package bubblewrap" >&2
		exit 1
	}
	as_root=sudo
fi
echo "bubblewrap is not installed; installing the package bubblewrap"
if command -v apt-get >/dev/null 2>&1; then
	$as_root apt-get update -qq
	$as_root apt-get install -y -qq bubblewrap
elif command -v dnf >/dev/null 2>&1; then
	$as_root dnf install -y -q bubblewrap
elif command -v pacman >/dev/null 2>&1; then
	$as_root pacman -S --needed --noconfirm bubblewrap
elif command -v zypper >/dev/null 2>&1; then
	$as_root zypper --non-interactive install bubblewrap
elif command -v apk >/dev/null 2>&1; then
	$as_root apk add bubblewrap
else
	echo "no known package manager: install bubblewrap by hand, see https://github.com/containers/bubblewrap" >&2
	exit 1
fi
