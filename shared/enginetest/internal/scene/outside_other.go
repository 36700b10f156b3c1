//go:build !linux

package scene

import "syscall"

func outsideAttr(bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
