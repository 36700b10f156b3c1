# Runs its argument as a shell's text, as root.
eval "$1"
