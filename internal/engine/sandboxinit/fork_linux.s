// The functions of fork_linux.go without a body are the Go runtime's.
