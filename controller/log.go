package controller

import (
	"maps"
	"slices"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// logKeys are the keys of log lines that templates cannot have.
var logKeys = []string{"timestamp", "level", "message", "controller", "namespace", "name", "did", "next", "reason", "logger", "err"}

// logger says in each line which custom resource it is about, and what the templates say beside that.
func (p *pass) logger() logr.Logger {
	l := p.log.WithValues("namespace", p.ref.Namespace, "name", p.ref.Name)
	if p.result == nil {
		return l
	}
	for _, key := range slices.Sorted(maps.Keys(p.result.Log)) {
		if !slices.Contains(logKeys, key) {
			l = l.WithValues(key, p.result.Log[key])
		}
	}
	return l
}

// logEnd says what a pass has written, and when the next one comes, if nothing happens before. One that has written nothing says
// nothing.
func (p *pass) logEnd(did []string, next reconcile.Result) {
	if len(did) > 0 {
		p.logger().Info("reconciled", "did", did, "next", next.RequeueAfter.String())
	}
}
