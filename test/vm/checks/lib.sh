# Ways to run a command, and what is expected of it. A check ends by "finish".
failures=0
# What a command needs of this environment, whoever starts it.
environment="PATH=$PATH LC_ALL=$LC_ALL SBXHOST_REQUIRE=bwrap,git,python3"

# service is a system service of root's whose group is its own to divide.
service() { systemd-run --quiet --pipe --wait --collect -p Delegate=yes -- env $environment HOME=/root "$@"; }

# plain is a system service of user dev's that nothing is delegated to.
plain() { systemd-run --quiet --pipe --wait --collect --uid=dev -- env $environment HOME=/home/dev USER=dev "$@"; }

# delegated is the same with a group that is dev's to divide.
delegated() { systemd-run --quiet --pipe --wait --collect --uid=dev -p Delegate=yes -- env $environment HOME=/home/dev USER=dev "$@"; }

# desktop is a program that dev's own service manager has started.
desktop() { systemd-run --user --machine=dev@.host --quiet --pipe --wait --collect -- env $environment HOME=/home/dev "$@"; }

# login is dev's session, as over ssh: a group of the system's manager, and
# beside it a manager of her own.
login() { su -l dev -c 'exec "$@"' -- sh env $environment "$@"; }

# without_manager has dev's service manager end.
without_manager() { loginctl disable-linger dev && systemctl stop user@1000.service; }

failed() { echo "NOT $*"; failures=$((failures + 1)); }

# expect STATUS WAY COMMAND... runs that and shows what it says.
expect() {
	want=$1
	shift
	echo "--- $*" | head -n 1
	said=$(way=$1 && shift && "$way" sh -c 'cd /home/dev/project && exec "$@"' sh "$@" 2>&1)
	got=$?
	echo "$said" | tail -n "${show:-25}"
	[ "$got" = "$want" ] || failed "$want but $got: $(echo "$*" | head -n 1)"
}

# says PATTERN looks for that in what was last said; unsaid finds it there wrong.
says() { echo "$said" | grep -Eq -- "$1" || failed "said: $1"; }
unsaid() { ! echo "$said" | grep -Eq -- "$1" || failed "to be said: $1"; }

# tests WAY PACKAGE NAMES [MORE] runs Go tests in their package's directory.
tests() {
	way=$1 package=$2 names=$3
	shift 3
	# Tests need a directory that is theirs, and whole.
	rm -rf /home/dev/src && mkdir -p /home/dev/src && cp -r "/payload/src/$package" /home/dev/src/package
	owner=dev
	[ "$way" != service ] || owner=root
	chown -R $owner: /home/dev/src
	show=${show:-60} expect 0 "$way" sh -c 'cd /home/dev/src/package && exec ./test "$@"' sh -test.timeout=20m -test.parallel=2 -test.run "$names" "$@"
}

finish() { [ "$failures" = 0 ]; exit; }

[ -d /home/dev/project ] || runuser -u dev -- mkdir /home/dev/project
