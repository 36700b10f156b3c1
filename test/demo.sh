#!/bin/sh
# Shows what a command in the sandbox "fast" of config.hcl sees and does not
# see. Usage: test/demo.sh PATH-TO-SBXHOST
set -eu
bin=$(CDPATH='' cd "$(dirname "$1")" && pwd)
config=$(CDPATH='' cd "$(dirname "$0")/.." && pwd)/config.hcl
PATH=$bin:$PATH

# A home with a project in it, both gone afterwards.
dir=$(mktemp -d "${TMPDIR:-/tmp}/sbxhost-demo.XXXXXX")
trap 'rm -rf "$dir"' EXIT
export HOME="$dir/you" DEPLOY_TOKEN=hunter2
unset XDG_CONFIG_HOME XDG_STATE_HOME SBXHOST_CONFIG SBXHOST_LOG SBXHOST_APPROVAL_MODE SBXHOST_AUDIT
mkdir -p "$HOME/.ssh" "$HOME/project"
echo 'a private key' >"$HOME/.ssh/id_ed25519"
cd "$HOME/project"
cp "$config" config.hcl
echo 'a file of the project' >notes.txt

# try shows a command line, runs just that, and tells how it ended.
try() {
	printf '\n$ %s\n' "$1"
	status=0
	eval "$1" 2>&1 || status=$?
	[ "$status" = 0 ] || printf '(exit status %d)\n' "$status"
}

echo "You are in ~/project, which holds notes.txt and a copy of config.hcl."
echo
echo "== A configuration that came with a project is obeyed once you have read it."
try 'sbxhost exec -- true'
try 'sbxhost trust'
echo
echo "== A command has the project, read and write, and the system's programs."
try 'sbxhost exec -- cat notes.txt'
try "sbxhost exec -c 'echo made inside >made.txt; ls'"
echo
echo "== It does not have the rest of your home, nor your variables."
try 'cat ~/.ssh/id_ed25519; echo $DEPLOY_TOKEN'
try 'sbxhost exec -- cat ~/.ssh/id_ed25519'
try "sbxhost exec -c 'echo \"token: \$DEPLOY_TOKEN\"'"
echo
echo "== Nor the system's own files to write, other processes, or a network."
try 'sbxhost exec -- touch /etc/backdoor'
try 'ls -d /proc/[0-9]* | wc -l'
try "sbxhost exec -c 'ls -d /proc/[0-9]* | wc -l'"
try "sbxhost exec -- sh -c 'tail -n +3 /proc/net/dev | cut -d: -f1'"
echo
echo "== Not even the configuration that holds it."
try "sbxhost exec -c 'echo >config.hcl'"
echo
echo "== It ends when it should, and its exit status is its own."
try "sbxhost exec -c 'exit 7'"
try 'sbxhost exec -timeout 3s -- sleep 60'
try 'sbxhost exec -- no-such-command'
echo
echo "== Every mount and every variable has a reason (-v lists each)."
try 'sbxhost explain -- npm test'
echo
echo "Next: bin/sbxhost -help; sbxhost init in a project of your own; docs/."
