package qmp

import (
	"errors"
	"fmt"
)

// ErrClosed says that Disconnect was called.
var ErrClosed = errors.New("QMP monitor closed")

// ErrNotConnected says that a command was given before Connect.
var ErrNotConnected = errors.New("QMP monitor not connected")

// Classes of errors that QEMU still tells apart (QapiErrorClass).
const (
	ClassGeneric         = "GenericError"
	ClassCommandNotFound = "CommandNotFound"
	ClassDeviceNotActive = "DeviceNotActive"
	ClassDeviceNotFound  = "DeviceNotFound"
	ClassKVMMissingCap   = "KVMMissingCap"
)

// Error is QEMU's refusal of a command.
type Error struct {
	// Class is one of the Class constants.
	Class string `json:"class"`
	// Desc is QEMU's explanation for people.
	Desc string `json:"desc"`
}

// Error returns the explanation, with the class if that tells something.
func (e *Error) Error() string {
	if e.Class == "" || e.Class == ClassGeneric {
		return e.Desc
	}
	return fmt.Sprintf("%s (%s)", e.Desc, e.Class)
}
