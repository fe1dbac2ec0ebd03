package controller

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cuvee-vm/cuvee/controller/keypair"
	"github.com/cuvee-vm/cuvee/controller/watch"
	"github.com/cuvee-vm/cuvee/render"
)

// certificate is what is known of the Secret of a certificate, so that it is read once, and not in each pass.
type certificate struct {
	uid             types.UID
	resourceVersion string
	// asked stands for what the certificate was compared with.
	asked digest
	// renewAt is when there has to be another one; zero means never, as the Secret is not ours.
	renewAt time.Time
}

// certify sees to it that a Secret has a good certificate. It is left alone until one is due; a pair is made only to be
// stored at once. A Secret that someone else has filled is used as it is.
func (p *pass) certify(ctx context.Context, t *target, want render.Generate) error {
	p.judge(t.ref, t.item)
	if p.item.Deleting() {
		return nil
	}
	validFor, renewBefore, err := lifetime(t.Key, want)
	if err != nil {
		return err
	}
	known, err := p.certificate(ctx, t, want, renewBefore)
	if err != nil {
		return err
	}
	now := time.Now()
	if known != nil && (known.renewAt.IsZero() || now.Before(known.renewAt)) {
		p.wakeAt(known.renewAt)
		return nil
	}
	pair, err := keypair.New(want.DNSNames, now, validFor)
	if err != nil {
		return &problem{reason: reasonTemplateError, stalled: true, wait: true, message: fmt.Sprintf("generate.%s: %v", t.Key, err)}
	}
	data := map[string]any{}
	for file, content := range pair {
		data[file] = base64.StdEncoding.EncodeToString(content)
	}
	t.body["data"] = data
	// The certificate is no secret, and there are no two alike.
	t.hash = hashOf(p.pkg.Owner, t.hash, string(pair[keypair.Certificate]))
	if err := p.keep(ctx, t); err != nil {
		return err
	}
	_, renewAt := keypair.Good(pair, want.DNSNames, now, renewBefore)
	p.knowCertificate(t.Key, p.judged[t.ref], want, renewAt)
	p.wakeAt(renewAt)
	return nil
}

// certificate is what is known of the certificate that is there. It is nil if there is none, and nothing that someone would
// lose; it is due at once if it is ours, and not good.
func (p *pass) certificate(ctx context.Context, t *target, want render.Generate, renewBefore time.Duration) (*certificate, error) {
	if t.item == nil {
		return nil, nil
	}
	if c, ok := p.state.certificates.get(t.Key); ok && c.uid == t.item.UID() && c.resourceVersion == t.item.ResourceVersion() && c.asked == asked(want) {
		return &c, nil
	}
	text, _, err := p.api.GetData(ctx, t.ref)
	if apierrors.IsNotFound(err) {
		return nil, errStale
	}
	if err != nil {
		return nil, writeProblem("read", t.ref, err)
	}
	data := map[string][]byte{}
	for file, content := range text {
		// What is no base64 is no certificate either.
		data[file], _ = base64.StdEncoding.DecodeString(content)
	}
	ours := t.item.Owner() == p.item.UID()
	good, renewAt := keypair.Good(data, want.DNSNames, time.Now(), renewBefore)
	if ours && !good || len(data) == 0 {
		return nil, nil
	}
	if !ours {
		renewAt = time.Time{}
	}
	return p.knowCertificate(t.Key, t.item, want, renewAt), nil
}

func (p *pass) knowCertificate(key string, i *watch.Item, want render.Generate, renewAt time.Time) *certificate {
	if i == nil {
		return nil
	}
	c := certificate{uid: i.UID(), resourceVersion: i.ResourceVersion(), asked: asked(want), renewAt: renewAt}
	p.state.certificates.set(key, c)
	return &c
}

// asked stands for what is asked for.
func asked(want render.Generate) digest { return digestOf(fmt.Append(nil, want)) }

// lifetime reads the durations of a certificate.
func lifetime(key string, g render.Generate) (validFor, renewBefore time.Duration, err error) {
	for field, d := range map[string]struct {
		text string
		to   *time.Duration
	}{"validFor": {g.ValidFor, &validFor}, "renewBefore": {g.RenewBefore, &renewBefore}} {
		if *d.to, err = time.ParseDuration(d.text); err != nil || *d.to <= 0 {
			return 0, 0, &problem{reason: reasonTemplateError, stalled: true, wait: true,
				message: fmt.Sprintf("generate.%s.%s: %q is not valid, want a positive duration such as 720h", key, field, d.text)}
		}
	}
	return validFor, renewBefore, nil
}

// wakeAt brings a pass at a time, if none is to come earlier. A zero time is never.
func (p *pass) wakeAt(at time.Time) {
	if !at.IsZero() && (p.state.wake.IsZero() || at.Before(p.state.wake)) {
		p.state.wake = at
	}
}
