package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// request is one of the API server's audit log.
type request struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct{ Resource, Subresource, Namespace, Name string }
	// RequestReceivedTimestamp is when it came.
	RequestReceivedTimestamp time.Time
}

// writesOf counts for each VM what the manager and its runner have written until it ran: Events, and all else. It prints what that was,
// for each VM of many in all.
func writesOf(auditLog string, starts map[string]start) (writes, events []int, err error) {
	f, err := os.Open(auditLog)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	byVM, eventsByVM, kinds := map[string]int{}, map[string]int{}, map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, nil, fmt.Errorf("read the audit log: %w", err)
		}
		if r.ObjectRef.Namespace != namespace || !slices.Contains([]string{managerUser, runnerUser}, r.User.Username) {
			continue
		}
		for name, s := range starts {
			if !strings.Contains(r.ObjectRef.Name, name) || r.RequestReceivedTimestamp.After(s.runs()) {
				continue
			}
			kinds[fmt.Sprintf("%s %s %s %s", r.User.Username[strings.LastIndex(r.User.Username, ":")+1:], r.Verb, r.ObjectRef.Resource, r.ObjectRef.Subresource)]++
			if r.ObjectRef.Resource == "events" {
				eventsByVM[name]++
			} else {
				byVM[name]++
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		fmt.Printf("# %5.1f a VM: %s\n", float64(kinds[kind])/float64(len(starts)), kind)
	}
	for name := range starts {
		if byVM[name] == 0 {
			return nil, nil, fmt.Errorf("the audit log has nothing of the VM %s", name)
		}
		writes, events = append(writes, byVM[name]), append(events, eventsByVM[name])
	}
	return writes, events, lines.Err()
}
