#!/bin/sh
# AppArmor before 4.0 has neither this profile's language nor the restriction.
set -e
if [ -e /etc/apparmor.d/abi/4.0 ]; then
	cp /usr/share/sbxhost/apparmor /etc/apparmor.d/sbxhost
	if [ -e /sys/kernel/security/apparmor/profiles ] && command -v apparmor_parser >/dev/null; then
		apparmor_parser -r /etc/apparmor.d/sbxhost || echo "sbxhost: the AppArmor profile was not loaded; see sbxhost doctor" >&2
	fi
fi
