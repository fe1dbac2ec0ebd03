package runner

import "time"

// pace is how often and how fast a VM is looked after.
type pace struct {
	// files is how often files are looked at that the display's password comes from, disks the size of disks.
	files, disks time.Duration
	// retryMin is when something that failed is tried again first; each further pause is twice as long, up to retryMax.
	retryMin, retryMax time.Duration
	// settle is how long a guest has to run after an I/O error until that is over.
	settle time.Duration
	// powerdown is how often a guest is asked again to shut down: one that is just booting does not listen yet.
	powerdown time.Duration
	// repeat is how often the same error of a disk is told.
	repeat time.Duration
	// agent is when the guest's agent is asked again first; each further pause is twice as long, up to agentMost. agentLeast lies
	// between two times in any case.
	agent, agentMost, agentLeast time.Duration
	// agentShutdown is how long a guest is left alone whose agent has been asked to shut it down.
	agentShutdown time.Duration
}

var defaultPace = pace{
	files:     2 * time.Second,
	disks:     10 * time.Second,
	retryMin:  time.Second,
	retryMax:  time.Minute,
	settle:    500 * time.Millisecond,
	powerdown: 3 * time.Second,
	repeat:    time.Minute,

	agent: 5 * time.Second, agentMost: time.Minute, agentLeast: time.Second,
	agentShutdown: 10 * time.Second,
}

// after returns the pause that follows one, 0 being none.
func (p pace) after(delay time.Duration) time.Duration {
	return min(max(2*delay, p.retryMin), p.retryMax)
}
