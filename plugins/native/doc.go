// Package native is the engine that isolates commands by the kernel's own calls on Linux:
// no daemon, no image, nothing to install.
package native
