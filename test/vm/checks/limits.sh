# Limits where control groups are of version 2 alone: which mechanism holds them is
# told, and the limit bites.
. /payload/checks/lib.sh
cat >/home/dev/limits.hcl <<-'HCL'
	sandbox "s" {
	  engine = "native"
	  limits {
	    memory = "64MiB"
	    cpus   = 0.2
	    pids   = 40
	  }
	}
HCL
sed 's/pids .*/&\n    enforce = "best_effort"/' /home/dev/limits.hcl >/home/dev/best.hcl
cat >/home/dev/hog.py <<-'PY'
	b = bytearray(200 << 20)
	for i in range(0, len(b), 4096): b[i] = 1
	print("unbounded")
PY
cat >/home/dev/bomb.py <<-'PY'
	import os, signal
	n = 0
	try:
	    while n < 500:
	        if os.fork() == 0: signal.pause()
	        n += 1
	except OSError as e:
	    print("refused", e.strerror, n < 40)
PY
cat >/home/dev/spin.py <<-'PY'
	import time
	wall, used = time.monotonic(), time.process_time()
	while time.monotonic() < wall + 3: pass
	print("throttled" if time.process_time() - used < 1.2 else "unbounded", time.process_time() - used)
PY

# report WAY CONFIG has a command run, and its -result said.
report() {
	expect 0 "$1" sh -c "sbxhost exec -config $2 -result /tmp/r.json -- true && cat /tmp/r.json && rm /tmp/r.json"
}

# held WAY MECHANISM... : memory, cpus and pids are each held by one of these.
held() {
	way=$1 mechanism=$2
	expect 0 "$way" sbxhost explain -v -config /home/dev/limits.hcl -- true
	for limit in memory cpus pids; do says "limits.$limit is held by $mechanism"; done
	inside="sbxhost exec -config /home/dev/limits.hcl"
	report "$way" /home/dev/limits.hcl
	says "\"mechanism\": \"$mechanism\""
	expect 0 "$way" $inside -- sh -c 'cat /sys/fs/cgroup/memory.max; find /sys/fs/cgroup -mindepth 1 -type d'
	says '^67108864$'
	unsaid /sys
	expect 137 "$way" $inside -- python3 -c "$(cat /home/dev/hog.py)"
	unsaid unbounded
	# In a session it is the session's holder that starts the init.
	expect 137 "$way" $inside -session work -- python3 -c "$(cat /home/dev/hog.py)"
	unsaid unbounded
	expect 0 "$way" $inside -- python3 -c "$(cat /home/dev/bomb.py)"
	says '^refused Resource temporarily unavailable True'
	expect 0 "$way" $inside -- python3 -c "$(cat /home/dev/spin.py)"
	says '^throttled'
}

# tested WAY: the packages' own tests of all this.
tested() {
	environment="$environment SBXHOST_REQUIRE=bwrap,python3,cgroup"
	tests "$1" plugins/bwrap 'TestLimits|TestForkBomb|TestMemoryBalloon|TestProcessorTime|TestTooSmallLimits|TestManySmallProcesses' -test.v
	[ "$1" = login ] || tests "$1" internal/engine/cgroup . -test.v
}

case $1 in
service) held service 'cgroup v2' && tested service ;;
desktop) held desktop 'systemd scope' ;;
login) held login 'systemd scope' && tested login ;;
delegated) held delegated 'systemd scope' ;;
none)
	without_manager
	expect 125 plain sbxhost exec -config /home/dev/limits.hcl -- true
	says 'limits.memory'
	report plain /home/dev/best.hcl
	says 'approximated'
	expect 0 plain sbxhost explain -v -config /home/dev/best.hcl -- true
	says 'limits.cpus is not held'
	show=60 expect 0 plain sbxhost doctor
	says 'limits.memory: not held'
	tests plain plugins/bwrap 'TestLimits' -test.v
	;;
*) failed "one of service, desktop, login, delegated, none: $1" ;;
esac
[ -z "$(find /sys/fs/cgroup -name 'sbxhost-*')" ] || failed "without groups left behind: $(find /sys/fs/cgroup -name 'sbxhost-*')"
finish
