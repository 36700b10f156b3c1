// Package nsengine is what the engines made of Linux namespaces have in common: the
// options of their system call filter, the limits that their init sets, how they are
// probed, and why a kernel refuses them.
package nsengine
