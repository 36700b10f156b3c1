package enginetest_test

// These lies were written from docs/protocol.md alone, by somebody who had
// seen neither the kit's cases nor the lies of the other table.
//
//	sentence                                  the engine
//	Info: be constant                         claims a feature more once a sandbox was open
//	Plan: do nothing                          leaves a file in the first writable directory
//	Plan: what Run would do                   shows the arguments of the first command for each later one
//	Plan: KIND_CLOSED                         answers for a sandbox that is closed
//	Run: starts a command                     gives the second command of a sandbox the arguments of the first
//	Run: starts a command                     starts the second command in the directory of the first
//	Run: replies started, or fails            starts a command that does not exist, which exits with 127
//	Run: events, then exited                  reports a limit's event after the end
//	Run: cancel kills                         sends SIGTERM, which a command can ignore
//	Run: cancel kills everything              spares what has a session of its own
//	Signal: the process group                 reaches the command alone, not its group
//	Signal: reach                             drops all but INT, TERM and KILL
//	Signal: KIND_PROCESS_DONE                 returns nil for an ended command while another one runs
//	Close: kills what runs                    returns while what runs is alive, which ends two seconds later
//	Close: idempotent                         fails for the third Close
//	concurrent commands                       makes a command wait for the one before it
//	concurrent sandboxes                      makes Open wait while a command runs in another sandbox
//	exited: an exit code from 0 to 255        tells 137 as SIGKILL
//	exited: an exit code from 0 to 255        tells 200 as 72
//	exited: or the number of a signal         tells a real-time signal as an exit code
//	exited: or the number of a signal         tells the signal of a command with a core dump as an exit code
//	before it, everything is gone             leaves what forked twice with a session of its own
//	isolates: refuse unconfined               accepts it
//	degraded: an overlay                      sends the event for the first sandbox only
//	limit: best_effort                        sends the event for the first limit only
//	the deepest entry decides                 forgets the fourth level of entries
//	hidden with deeper entries: read-only     lets commands write between them
//	missing: skip                             skips a missing source that must be there
//	missing: the entry's why                  names the path in its place
//	no mount points on the host               creates an empty file where a hidden path is missing
//	no rename between                         binds the last directory in between, not those above it
//	form: source not shortest                 cleans a source and goes on
//	form: path of another                     takes the later entry
//	form: private with a source               ignores the source
//	form: session.dir relative                takes it from its own directory
//	form: unknown enum                        takes an unknown access for read-only
//	form: unknown enum                        takes an unknown network for none
//	form: negative limit                      takes a negative temp_size for none
//	form: options not JSON                    ignores such options
//	form: NUL                                 cuts the second argument at a NUL
//	form: variable without a name             leaves it out
//	args                                      cuts an argument after 64 KiB
//	args                                      leaves empty arguments out
//	args                                      takes the last newline from an argument
//	args                                      gives the first 500 arguments
//	env                                       leaves out variables with an empty value
//	env                                       cuts a value at its first newline
//	env                                       adds a variable of its own
//	env                                       adds LD_LIBRARY_PATH only to scripts
//	script: args are $1                       begins with $0
//	script: longer than 128 KiB               cuts it there, at the end of a line
//	script                                    passes it by standard input
//	script: by a file or descriptor           leaves the descriptor open in the command
//	dir                                       starts in the parent where dir is a symlink
//	UNSUPPORTED and the attribute             has no attribute
//	best_effort: sends no event               sends one for each of the nine that it lacks
//	network.none                              shows the host's abstract sockets
//	network.none                              has no loopback
//	network.names: !                          lets a more exact name win over !
//	network.names: events                     reports refused names as allowed
//	network.names: events                     swaps sent and received
//	network.names: events                     has milliseconds for nanoseconds
//	network.names: events                     reports port 443 for each
//	network.names: events                     reports no refused name
//	network.proxy                             does not set ALL_PROXY
//	network.inject: secrets in no event       has the secret in the reason
//	network.ports: host_ports                 has the first port only
//	network.ports: publish                    has the first port only
//	devices: in /dev                          makes it a plain file
//	devices: as far as their modes let        can be read only
//	filesystem.minimal                        shows /var/log, too
//	filesystem.minimal                        lacks the certificates
//	mount.remap                               shows a directory's files, not its directories
//	mount.remap                               lets commands write a read-only source at another path
//	mount.overlay                             brings deleted files back for the second command
//	mount.overlay                             keeps writes for the next sandbox
//	mount.overlay                             is read-only
//	mount.tmpfs                               shares it with the next sandbox
//	mount.tmpfs                               is noexec
//	mount.nested                              lets a read-only file (not directory) in a writable one be written
//	hidden                                    lists the names in a hidden directory
//	hidden                                    hides a file by an empty one that can be written
//	home.private: empty                       has a .profile in it
//	home.private: gone                        has the file of the sandbox before
//	home.private: writable                    is noexec
//	temp.private                              shares /dev/shm between two sandboxes
//	temp.private                              shares /tmp of two sandboxes that are open at a time
//	temp.private                              is private for the first command of a sandbox only
//	processes.hidden: see                     shows the host's /proc
//	processes.hidden: only its own            lets the second command see what is in another sandbox
//	session.processes: share                  has another /dev/shm for each sandbox
//	session.processes: share                  has another host name for each sandbox
//	session.processes: until the last closes  ends all with the first Close
//	session.processes: timeout_ns             ends the command alone
//	session.processes: timeout_ns             counts twice the time
//	session.processes: refuses another        takes another limit
//	metadata: times                           shows the start of the epoch for directories
//	metadata: the host's name                 hides it from uname, shows it in /etc/hostname
//	metadata: unreadable files                says EACCES for those that exist
//	kernel.filtered: no privileges            does not set no_new_privs
//	kernel.filtered: no privileges            gives CAP_NET_BIND_SERVICE in the ambient set
//	kernel.filtered: system calls             allows user namespaces
//	kernel.filtered: system calls             allows TIOCSTI
//	tty: as stdio                             gives no controlling terminal
//	tty: as stdio                             copies by a pipe, which is none
//	command.trace: with trace                 reports without it as well
//	command.trace: reports                    cuts a path after 100 bytes
//	command.trace: reports                    reports the first only
//	user                                      keeps the supplementary groups
//	user                                      keeps the group
//	limit.memory: everything                  bounds each process
//	limit.pids: everything                    has twice the number
//	limit.pids                                holds for the first command only
//	limit.open_files                          sets the soft limit only
//	limit.open_files: each process            has one less
//	limit.temp_size: each                     bounds /tmp, not /dev/shm
//	stdio: 0, 1 and 2                         gives standard error where only output is there
//	stdio: the others are the null device     closes them
//	stdio: the others are the null device     has an empty pipe for standard input
//	stdio: closes its copies                  keeps them until Close
//	stdio: the command's files                opens files again, which begins at their start
//	stdio: the command's files                makes them not block
//	start: must not inherit descriptors       gives the command a descriptor more
//	start: a process group of its own         starts commands with SIGPIPE ignored
//	start                                     starts commands with SIGINT blocked
//	start                                     starts commands with umask 077
//	errors: 32 KiB                            has a megabyte of text
//	errors: values of variables               names a variable with its value
//	KIND_INVALID_SPEC: dir does not exist     KIND_NOT_FOUND
//	KIND_NOT_FOUND: or its interpreter        KIND_NOT_EXECUTABLE
//	KIND_NOT_EXECUTABLE: a directory          KIND_NOT_FOUND
//	KIND_UNUSABLE: never for a shortage       KIND_UNUSABLE where a source is missing
