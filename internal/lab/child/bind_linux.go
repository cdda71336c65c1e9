package child

import (
	"os/exec"
	"syscall"
)

// bind ties a child's life to this process's. Other attributes stay as they were set.
func bind(cmd *exec.Cmd, death syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = death, true
}
