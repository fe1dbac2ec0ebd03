package runner_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cuvee-vm/cuvee/runner"
)

// A disk's limits are set, changed and taken back while the guest runs.
func TestDiskLimits(t *testing.T) {
	type limits struct {
		BPS      int64 `json:"bps"`
		IOPS     int64 `json:"iops"`
		IOPSRead int64 `json:"iops_rd"`
		IOPSMax  int64 `json:"iops_max"`
	}
	m, _ := keptTray(t)
	inForce := func() limits {
		var all []struct {
			QDev     string  `json:"qdev"`
			Inserted *limits `json:"inserted"`
		}
		m.execute("query-block", nil, &all)
		for _, b := range all {
			// A virtio-blk device is named by its path.
			if b.QDev != "cd0" && b.Inserted != nil {
				return *b.Inserted
			}
		}
		t.Fatal("no disk")
		return limits{}
	}
	for _, step := range []struct {
		limits map[string]int64
		want   limits
	}{
		{map[string]int64{"bps": 1 << 20, "iops": 100, "iops_max": 200}, limits{BPS: 1 << 20, IOPS: 100, IOPSMax: 200}},
		{map[string]int64{"iops_rd": 50}, limits{IOPSRead: 50}},
		{nil, limits{}},
	} {
		m.change(func(c *runner.Config) { c.Live.Disks = map[string]runner.LiveDisk{"disk0": {Limits: step.limits}} })
		m.until("the limits are in force", func() bool { return inForce() == step.want })
		if status, _ := m.vm.Status(); len(status.Pending) != 0 {
			t.Errorf("limits %v: pending %s", step.limits, cmp.Diff(nil, status.Pending))
		}
	}
	// QEMU refuses what contradicts itself, and the VM goes on with what it has.
	m.change(func(c *runner.Config) {
		c.Live.Disks = map[string]runner.LiveDisk{"disk0": {Limits: map[string]int64{"iops": 10, "iops_rd": 10}}}
	})
	m.waitFor("the limits are refused", func(s runner.Status) bool { return len(s.Pending) == 1 && !s.Pending[0].Waiting })
	if got := inForce(); got != (limits{}) {
		t.Errorf("limits are %+v after a refusal", got)
	}
}
