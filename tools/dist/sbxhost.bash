complete -o default -C /usr/bin/sbxhost sbxhost
