# What depends on the processor: the filter of system calls, the init, one command.
. /payload/checks/lib.sh
for way in login service; do
	expect 0 $way sbxhost exec -- sh -c 'echo runs; uname -m; grep Seccomp: /proc/self/status; exit 0'
	says '^runs'
	says "^$(uname -m)"
	says '^Seccomp:.*2'
	expect 7 $way sbxhost exec -- sh -c 'exit 7'
	expect 143 $way sbxhost exec -- sh -c 'kill -TERM 0'
	# Refused by the filter, each in its own way.
	expect 0 $way sbxhost exec -- python3 -c "$(cat <<-'PY'
		import ctypes, os, platform, socket, errno
		libc = ctypes.CDLL(None, use_errno=True)
		def call(number, *args):
		    ctypes.set_errno(0)
		    libc.syscall(number, *args)
		    return errno.errorcode.get(ctypes.get_errno(), "allowed")
		bpf, keyctl = {"x86_64": (321, 250), "aarch64": (280, 219)}[platform.machine()]
		print("bpf", call(bpf, 0, 0, 0), "keyctl", call(keyctl, 0, 0), "clone3", call(435, 0, 0), "io_uring", call(425, 1, 0))
		try: socket.socket(40, socket.SOCK_STREAM); print("vsock allowed")
		except OSError as e: print("vsock", errno.errorcode[e.errno])
		try: os.open("/tmp/x", os.O_CREAT | os.O_WRONLY, 0o4755); print("setuid allowed")
		except OSError as e: print("setuid", errno.errorcode[e.errno])
	PY
	)"
	says 'bpf EPERM keyctl EPERM clone3 ENOSYS io_uring ENOSYS'
	says 'vsock EPERM'
	says 'setuid EPERM'
	# Without those that build a program or read Go's sources: Go is not there.
	[ $way = login ] || continue
	tests $way shared/seccomp 'TestCalls|TestRefusedAltogether|TestOtherEntries'
	tests $way internal/engine/sandboxinit 'TestExitCodes|TestDeathBySignal|TestFilter|TestRefused|TestScope|TestSignals|TestTTY' -test.skip '/^(direct|bwrap)$'
	tests $way plugins/bwrap 'Filter' -test.v
done
finish
