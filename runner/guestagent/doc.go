// Package guestagent speaks with QEMU's guest agent over its channel, a virtio-serial port. The commands and what they return are
// those of the agent's schema, https://www.qemu.org/docs/master/interop/qemu-ga-ref.html (qga/qapi-schema.json in QEMU).
//
// There is no event, no greeting and no end of the connection: the channel stays while agents come and go with their guest. So each
// command begins with guest-sync-delimited, and what an earlier one has left behind is skipped.
//
// What the guest sends is not trusted. Nothing is read but while a command waits for its reply, so that a guest that writes
// without end is held up, and not the caller; what is read for one command is limited, in bytes and in time.
package guestagent
