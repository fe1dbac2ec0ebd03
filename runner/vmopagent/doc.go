// Package vmopagent speaks with VM-Operator's agent in a guest, which logs a user in to the guest's desktop and out again.
//
// The protocol is one of lines over a virtio-serial port. The agent greets with 220 when it begins, and says 240 when it ends. The
// host sends "login USER" or "logout", and the agent answers with 201 or 202 when that is done, or with 4xx or 5xx when it cannot
// be. Lines with 1xx tell how it goes on, and lines with other numbers are left for later versions. As in VM-Operator, an agent
// that begins is told to log out if nobody shall be logged in.
//
// What the guest sends is not trusted: lines are limited in length, and in how many are read in a second.
package vmopagent
