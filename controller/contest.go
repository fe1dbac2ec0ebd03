package controller

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"

	"github.com/cuvee-vm/cuvee/controller/apiserver"
)

const (
	// corrections is how often in a row an object is set back at once after someone has changed it.
	corrections = 10
	// correctAgain is after how long it may be set back once more, should that not have helped.
	correctAgain = slowly
)

// contest is about an object that someone else keeps changing, as a controller does that wants another value.
type contest struct {
	limit *rate.Limiter
	// fields are those that were set back last, with who had changed them.
	fields string
	// told says that an Event has told of it.
	told bool
}

// contested says whether to leave an object as someone has made it for now: nobody wins by writing faster. It is asked
// before an object is sent again that was the same when it was sent last.
func (p *pass) contested(t *target) error {
	if p.state.contests == nil {
		p.state.contests = map[apiserver.Ref]*contest{}
	}
	c := p.state.contests[t.ref]
	if c == nil {
		c = &contest{limit: rate.NewLimiter(rate.Every(correctAgain), corrections)}
		p.state.contests[t.ref] = c
	}
	if c.limit.AllowN(time.Now(), 1) {
		return nil
	}
	message := fmt.Sprintf("%s was set back %d times, and is changed again each time%s; it is set back every %v from now on. Stop what changes it, or take the fields out of the templates",
		t.ref, corrections, c.fields, correctAgain)
	if !c.told {
		c.told = true
		p.event(corev1.EventTypeWarning, reasonContested, "Apply", message)
	}
	return &problem{reason: reasonContested, message: message, wait: true}
}

// setBack notes which fields of an object are taken back from whom.
func (p *pass) setBack(t *target, holders []string) {
	if c := p.state.contests[t.ref]; c != nil {
		c.fields = ": " + strings.Join(holders, ", ")
	}
}
