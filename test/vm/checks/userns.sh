# What refuses user namespaces to an ordinary user is told by its name.
. /payload/checks/lib.sh
for setting in kernel.unprivileged_userns_clone user.max_user_namespaces; do
	before=$(sysctl -n $setting)
	sysctl -q -w $setting=0
	expect 125 login sbxhost exec -- true
	says "$setting"
	show=60 expect 1 login sbxhost doctor
	says "$setting"
	# Root's first namespace may be allowed; the one in it, which forbids more, is not.
	expect 125 service sbxhost exec -- true
	says "$setting"
	sysctl -q -w $setting="$before"
done
expect 0 login sbxhost exec -- true
finish
