package child

import (
	"os/exec"
	"syscall"
)

// bind ties a child's life to this process's. Whose it is to be stays as it was
// set.
func bind(cmd *exec.Cmd, death syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig, cmd.SysProcAttr.Setpgid = death, true
}
