package runner

import (
	"os/exec"
	"runtime"
	"syscall"
)

// launcher starts child processes that do not outlive the runner, even if that is killed.
//
// The kernel sends a child its parent-death signal when the thread that started it ends, not the process. So all
// children are started by one goroutine that keeps its thread; it ends, and the thread with it, by close, when
// the children are gone.
type launcher struct {
	jobs chan func()
}

func newLauncher() *launcher {
	l := &launcher{jobs: make(chan func())}
	go func() {
		// Never unlocked: at its end the goroutine takes the thread along.
		runtime.LockOSThread()
		for job := range l.jobs {
			job()
		}
	}()
	return l
}

func (l *launcher) close() {
	close(l.jobs)
}

// start starts a command in a process group of its own, so that a Ctrl-C at the terminal reaches only the runner.
func (l *launcher) start(cmd *exec.Cmd, user *User) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if user != nil {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: user.UID, Gid: user.GID, Groups: user.Groups}
	}
	started := make(chan error)
	l.jobs <- func() { started <- cmd.Start() }
	return <-started
}
