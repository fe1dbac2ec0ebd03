// Package freeport finds TCP ports for the servers of tests, which are told theirs before they listen.
//
// A port that Linux has just given out, and that was closed again, may have become another program's, or the near end of some
// connection, by the time the server listens. These ports are below those that Linux gives out, and each is given once.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// first and count are the range, which is below net.ipv4.ip_local_port_range and the NodePorts of Kubernetes.
const first, count = 10000, 20000

var (
	mu sync.Mutex
	// last begins anywhere, as other processes look for ports, too.
	last  = rand.IntN(count)
	given int
)

// Next returns a port that nothing listens at, at no address of this machine, and that it has not returned before.
func Next() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	for ; given < count; given++ {
		last = (last + 1) % count
		port := first + last
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		given++
		return port, l.Close()
	}
	return 0, errors.New("find a free port: all are taken")
}
