//go:build !linux

package cli

import "syscall"

// devAttr keeps the terminal's Ctrl-C from the brokers of mqctl dev, which ends
// them itself in their order. When mqctl dev is killed they stay here.
func devAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
