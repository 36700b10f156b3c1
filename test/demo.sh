#!/bin/sh
# Shows what a command in the sandbox "fast" of config.hcl sees and does not
# see. Usage: test/demo.sh PATH-TO-SBXHOST
set -eu
sbxhost=$(CDPATH='' cd "$(dirname "$1")" && pwd)/$(basename "$1")
config=$(CDPATH='' cd "$(dirname "$0")/.." && pwd)/config.hcl

dir=$(mktemp -d "${TMPDIR:-/tmp}/sbxhost-demo.XXXXXX")
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/project"
cd "$dir/project"
echo 'a file of the project' >notes.txt
echo 'a secret beside the project' >../secret.txt

try() {
	printf '\n$ sbxhost exec -sandbox fast -- %s\n' "$*"
	status=0
	"$sbxhost" exec -config "$config" -sandbox fast -- "$@" || status=$?
	[ "$status" = 0 ] || printf '(exit status %d)\n' "$status"
}

echo "The project is $dir/project."
echo
echo "== inside: the project, read and write, and the system's programs"
try cat notes.txt
try sh -c 'echo "written inside" > made.txt && ls -l'
try python3 -c 'print(sum(range(10)))' 2>&1
echo
echo "== not inside: what lies beside it, your home, other processes, the network"
try cat ../secret.txt 2>&1
try sh -c 'echo "home $HOME holds $(ls -A "$HOME" | wc -l) files"'
try sh -c 'echo "processes: $(ls -d /proc/[0-9]* | wc -l)"'
try sh -c 'echo "network interfaces: $(tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d " ")"'
try sh -c 'cat /etc/shadow' 2>&1
echo
echo "== exit statuses are the command's own"
try sh -c 'exit 7'
try no-such-command 2>&1
echo
echo "== what was decided, and why: sbxhost explain -sandbox fast -- true"
"$sbxhost" explain -config "$config" -sandbox fast -- true | head -n 20
