package content

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (p Patience) orDefaults() Patience {
	if p.Stall == 0 {
		p.Stall = time.Minute
	}
	if p.Backoff == 0 {
		p.Backoff = time.Second
	}
	if p.Tries == 0 {
		p.Tries = 6
	}
	return p
}

// maxBackoff is the longest wait between two requests.
const maxBackoff = 30 * time.Second

// remote is what is at an address. A connection that breaks is replaced by one that goes on where the other ended.
type remote struct {
	ctx      context.Context
	source   Source
	patience Patience
	client   *http.Client
	// length is how many bytes there are, -1 if the server does not say; validator is what changes when they do, "" if there is none.
	length    int64
	validator string
	// at is how many bytes have been read, failed how many requests in a row have brought none.
	at     int64
	failed int
	body   *body
}

// openRemote asks for the content, as often as that makes sense.
func openRemote(ctx context.Context, s Source) (*remote, error) {
	client, err := newClient(s)
	if err != nil {
		return nil, err
	}
	r := &remote{ctx: ctx, source: s, patience: s.Patience.orDefaults(), client: client, length: -1}
	if err := r.connect(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// Read goes on over broken connections.
func (r *remote) Read(p []byte) (int, error) {
	for {
		n, err := r.body.Read(p)
		r.at += int64(n)
		if n > 0 {
			r.failed = 0
			return n, nil
		}
		// Who closes the connection early, and has not said how much there is to come, cannot be told from one who is done.
		if errors.Is(err, io.EOF) && (r.length < 0 || r.at >= r.length) {
			return 0, io.EOF
		}
		if err == nil {
			continue
		}
		if err := r.reconnect(err); err != nil {
			return 0, err
		}
	}
}

func (r *remote) Close() error {
	if r.body != nil {
		r.body.Close()
	}
	r.client.CloseIdleConnections()
	return nil
}

// reconnect goes on after a failure.
func (r *remote) reconnect(cause error) error {
	r.body.Close()
	if err := r.wait(cause, 0); err != nil {
		return err
	}
	return r.connect()
}

// wait waits before the next request, or gives up.
func (r *remote) wait(cause error, least time.Duration) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if r.failed++; r.failed >= r.patience.Tries {
		return r.giveUp(cause)
	}
	delay := min(max(r.patience.Backoff<<min(r.failed-1, 16), least), maxBackoff)
	select {
	case <-r.ctx.Done():
		return r.ctx.Err()
	case <-time.After(delay):
		return nil
	}
}

func (r *remote) giveUp(cause error) error {
	if r.at > 0 && (errors.Is(cause, io.ErrUnexpectedEOF) || errors.Is(cause, io.EOF)) {
		return errorf(Truncated, "get %s: it ends after %d of %d bytes, again and again", r.source, r.at, r.length)
	}
	if known, ok := errors.AsType[*Error](cause); ok {
		return known
	}
	return errorf(Unreachable, "get %s: %w", r.source, withoutAddress(cause))
}

// connect requests what is missing, until there is an answer to go on with.
func (r *remote) connect() error {
	for {
		again, err := r.request()
		if err == nil {
			return nil
		}
		if again < 0 {
			return err
		}
		if err := r.wait(err, again); err != nil {
			return err
		}
	}
}

// never is the delay of a request that would not do better the next time.
const never = -1

// request requests what is missing once. With an error it says how long to wait at least before the next request.
func (r *remote) request() (again time.Duration, err error) {
	ctx, cancel := context.WithCancel(r.ctx)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.source.URL, nil)
	if err != nil {
		cancel()
		return never, errorf(InvalidSource, "url: not an address")
	}
	// The bytes as they are: a file that is compressed is told by its magic number.
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "cuvee")
	if r.at > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", r.at))
		if r.validator != "" {
			req.Header.Set("If-Range", r.validator)
		}
	}
	stall := time.AfterFunc(r.patience.Stall, cancel)
	resp, err := r.client.Do(req) //nolint:bodyclose // the body that is made of it is closed
	stall.Stop()
	if err != nil {
		cancel()
		return r.refused(err)
	}
	b := &body{ReadCloser: resp.Body, cancel: cancel, stall: stall, patience: r.patience.Stall}
	if again, err = r.accept(resp, b); err != nil {
		b.Close()
		return again, err
	}
	r.body = b
	return 0, nil
}

// refused explains a request without an answer.
func (r *remote) refused(err error) (time.Duration, error) {
	if r.ctx.Err() != nil {
		return never, r.ctx.Err()
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return never, known
	}
	if isUntrusted(err) {
		return never, errorf(Untrusted, "get %s: %w", r.source, withoutAddress(err))
	}
	if errors.Is(err, context.Canceled) {
		err = fmt.Errorf("no answer within %v", r.patience.Stall)
	}
	return 0, errorf(Unreachable, "get %s: %w", r.source, withoutAddress(err))
}

// accept takes an answer, or says what is wrong with it.
func (r *remote) accept(resp *http.Response, b *body) (time.Duration, error) {
	switch code := resp.StatusCode; {
	case code == http.StatusOK && r.at == 0:
		r.length, r.validator = resp.ContentLength, validator(resp.Header)
		return 0, nil
	case code == http.StatusOK:
		return r.skip(resp, b)
	case code == http.StatusPartialContent && r.at > 0:
		return never, r.checkRange(resp.Header)
	case code == http.StatusRequestedRangeNotSatisfiable && r.at > 0:
		return never, errorf(Truncated, "get %s: there are only %d bytes, not %d as the server said", r.source, r.at, r.length)
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return never, errorf(Unauthorized, "get %s: %s", r.source, resp.Status)
	case code == http.StatusNotFound, code == http.StatusGone:
		return never, errorf(NotFound, "get %s: %s", r.source, resp.Status)
	case code == http.StatusRequestTimeout, code == http.StatusTooManyRequests, code >= http.StatusInternalServerError:
		return retryAfter(resp.Header), errorf(Unreachable, "get %s: %s", r.source, resp.Status)
	default:
		return never, errorf(InvalidSource, "get %s: unexpected answer: %s", r.source, resp.Status)
	}
}

// skip goes on with a server that knows no ranges, or has something else by now: it sends everything again.
func (r *remote) skip(resp *http.Response, b *body) (time.Duration, error) {
	same := r.validator != "" && r.validator == validator(resp.Header)
	// A checksum finds out at the end.
	if !same && r.source.Checksum == "" || r.length != resp.ContentLength {
		return never, errorf(Unreachable, "get %s: the connection broke after %d bytes, and the server does not go on there with the same content", r.source, r.at)
	}
	if _, err := io.CopyN(io.Discard, b, r.at); err != nil {
		return 0, errorf(Unreachable, "get %s: %w", r.source, withoutAddress(err))
	}
	return 0, nil
}

// checkRange checks that an answer has just what is missing (RFC 9110, 14.4), and that it is of what came before: not every server looks
// at If-Range.
func (r *remote) checkRange(h http.Header) error {
	var from, to int64
	var total string
	if _, err := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/%s", &from, &to, &total); err != nil || from != r.at {
		return errorf(Unreachable, "get %s: the server answers with another range than that from %d on", r.source, r.at)
	}
	// The ETag is what a server must repeat (RFC 9110, 15.3.7).
	tag := strings.TrimPrefix(h.Get("ETag"), "W/")
	other := tag != "" && strings.HasPrefix(r.validator, `"`) && tag != r.validator
	if n, err := strconv.ParseInt(total, 10, 64); other || err == nil && r.length >= 0 && n != r.length {
		return errorf(Unreachable, "get %s: the content has changed meanwhile", r.source)
	}
	return nil
}

// validator returns what tells one content from another (RFC 9110, 8.8), in a form for If-Range, which takes no weak ETag.
func validator(h http.Header) string {
	if tag := h.Get("ETag"); tag != "" && !strings.HasPrefix(tag, "W/") {
		return tag
	}
	return h.Get("Last-Modified")
}

// retryAfter is how long a server wants to be left alone, as far as it says so in seconds.
func retryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return time.Duration(min(seconds, int(maxBackoff/time.Second))) * time.Second
}

// body is an answer that ends when nothing has come for too long.
type body struct {
	io.ReadCloser
	cancel   func()
	stall    *time.Timer
	patience time.Duration
}

func (b *body) Read(p []byte) (int, error) {
	b.stall.Reset(b.patience)
	n, err := b.ReadCloser.Read(p)
	// What comes after this read may take its time on our side.
	if !b.stall.Stop() && errors.Is(err, context.Canceled) {
		err = fmt.Errorf("nothing has come for %v", b.patience)
	}
	return n, err
}

func (b *body) Close() error {
	b.stall.Stop()
	b.cancel()
	return b.ReadCloser.Close()
}
