// Package qmp talks the QEMU Machine Protocol (https://www.qemu.org/docs/master/interop/qmp-spec.html)
// over a connection that is there already, for example one end of a socket pair that QEMU inherited.
//
// Monitor implements go-qemu's qmp.Monitor and uses its types. It is a transport of its own because go-qemu's
// socket monitor matches replies by order, has no deadlines, ends at replies over 64 KiB, and lets a slow
// listener for events hold up the replies.
package qmp
