# What this kernel has less of than the newest is told: by doctor, and by the events of
# a command. The argument is the ABI of Landlock there is to be, or "none".
. /payload/checks/lib.sh
printf 'sandbox "s" {\n  engine = "native"\n  network = true\n}\n' >/home/dev/net.hcl
for way in login service; do
	show=70 expect 0 $way sbxhost doctor
	case $1 in
	none) says 'landlock: does not work here' ;;
	*) says "landlock: version $1\$" ;;
	esac
	says 'overlay: works'
	expect 0 $way sbxhost exec -- sh -c 'echo runs; grep -E "Seccomp:|NoNewPrivs|CapBnd" /proc/self/status'
	says '^runs'
	says 'Seccomp:.*2'
	expect 0 $way sh -c 'sbxhost exec -config /home/dev/net.hcl -result /tmp/r.json -- true && cat /tmp/r.json; rm -f /tmp/r.json'
	case $1 in
	none | [1-5]) says abstract ;;
	*) unsaid abstract ;;
	esac
done
finish
