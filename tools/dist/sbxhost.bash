complete -C /usr/bin/sbxhost sbxhost
