package guestagent

import "errors"

var (
	// ErrSilent says that nothing, or no end of it, came in time: there is no agent, or it hangs.
	ErrSilent = errors.New("does not answer")
	// ErrGarbled says that what came is no reply.
	ErrGarbled = errors.New("answers with nonsense")
)

// Error is the agent's refusal of a command. Its texts are the guest's, shortened and without control characters.
type Error struct {
	// Class is CommandNotFound for a command that the agent does not have or that is switched off in the guest, mostly GenericError.
	Class string
	// Desc is for people.
	Desc string
}

func (e *Error) Error() string { return e.Class + ": " + e.Desc }
