// Package nsengine has what the engines with Linux namespaces share: the options of their system
// call filter, the limits that their init sets, their probe, and the reasons for a kernel's
// refusal.
package nsengine
