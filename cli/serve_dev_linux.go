package cli

import "syscall"

// devAttr keeps the terminal's Ctrl-C from the brokers of mqctl dev, which ends
// them itself in their order, and ends them when mqctl dev is killed.
func devAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
