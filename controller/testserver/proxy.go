package testserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Fault is what a proxy does to a request; the zero value does nothing.
type Fault struct {
	// Delay is how long the request waits first.
	Delay time.Duration
	// Status is the code of an error that is answered instead of asking the server: 403, 409, 429, 500 or 503.
	Status int
	// Lost has the server carry out the request, and loses its answer.
	Lost bool
	// Cut ends the answer after this time, as a watch ends when its connection breaks.
	Cut time.Duration
}

// Proxy stands between a client and a server, and answers some requests wrongly.
type Proxy struct {
	// Config is what a client connects with, as the user that the proxy was made for.
	Config *rest.Config

	server *httptest.Server
	// end ends all requests, as Close of the server waits for them.
	end    context.CancelFunc
	faults atomic.Pointer[func(*http.Request) Fault]

	mu     sync.Mutex
	counts map[string]int
}

// NewProxy makes a proxy for the user of the config. Close has to be called in the end.
func NewProxy(config *rest.Config) (*Proxy, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a proxy: %w", err)
	}
	target, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a proxy: %w", err)
	}
	p := &Proxy{counts: map[string]int{}}
	forward := &httputil.ReverseProxy{
		Transport:     transport,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: target.Scheme, Host: target.Host}) },
		FlushInterval: -1,
		// It would note each watch that was cut.
		ErrorLog: log.New(io.Discard, "", 0),
		// A server that is away is a broken connection for the client, too.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, forward) }))
	ctx, end := context.WithCancel(context.Background())
	p.end = end
	p.server.Config.BaseContext = func(net.Listener) context.Context { return ctx }
	p.server.Start()
	p.Config = &rest.Config{Host: p.server.URL, QPS: -1}
	return p, nil
}

// Close ends the proxy and all its connections, those too of a client that connects again and again.
func (p *Proxy) Close() {
	p.end()
	p.server.Close()
}

// SetFaults says from now on what is done to each request; nil does nothing to any.
func (p *Proxy) SetFaults(faults func(*http.Request) Fault) {
	if faults == nil {
		p.faults.Store(nil)
		return
	}
	p.faults.Store(&faults)
}

// Counts says how often each fault was given: "409", "429", "500", "503", "lost", "cut", "delay".
func (p *Proxy) Counts() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]int{}
	for k, v := range p.counts {
		out[k] = v
	}
	return out
}

func (p *Proxy) count(what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[what]++
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	var fault Fault
	if f := p.faults.Load(); f != nil {
		fault = (*f)(r)
	}
	if fault.Delay > 0 {
		p.count("delay")
		select {
		case <-r.Context().Done():
			return
		case <-time.After(fault.Delay):
		}
	}
	switch {
	case fault.Status != 0:
		p.count(strconv.Itoa(fault.Status))
		writeStatus(w, fault.Status)
	case fault.Lost:
		p.count("lost")
		forward.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case fault.Cut > 0:
		p.count("cut")
		// An answer that was begun ends with its connection.
		ctx, cancel := context.WithTimeout(r.Context(), fault.Cut)
		defer cancel()
		forward.ServeHTTP(w, r.WithContext(ctx))
	default:
		forward.ServeHTTP(w, r)
	}
}

// Mixed gives a fault to a part of the requests, from 0 to 1, by chance: the same seed gives the same sequence. Writes get
// errors, delays and lost answers, reads errors and delays, watches end early.
func Mixed(seed uint64, part float64) func(*http.Request) Fault {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, seed))
	return func(r *http.Request) Fault {
		mu.Lock()
		defer mu.Unlock()
		if isWatch(r) {
			return Fault{Cut: time.Duration(100+random.IntN(1500)) * time.Millisecond}
		}
		if random.Float64() >= part {
			return Fault{}
		}
		faults := []Fault{{Status: 429}, {Status: 500}, {Status: 503}, {Delay: 300 * time.Millisecond}}
		if r.Method != http.MethodGet {
			faults = append(faults, Fault{Status: 409}, Fault{Lost: true})
		}
		return faults[random.IntN(len(faults))]
	}
}

func isWatch(r *http.Request) bool {
	watch, _ := strconv.ParseBool(r.URL.Query().Get("watch"))
	return watch
}

var reasons = map[int]metav1.StatusReason{
	http.StatusForbidden:           metav1.StatusReasonForbidden,
	http.StatusConflict:            metav1.StatusReasonConflict,
	http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
	http.StatusInternalServerError: metav1.StatusReasonInternalError,
	http.StatusServiceUnavailable:  metav1.StatusReasonServiceUnavailable,
}

func writeStatus(w http.ResponseWriter, code int) {
	w.Header().Set("Content-Type", "application/json")
	if code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	// The client may be gone.
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Reason: reasons[code], Code: int32(code),
		Message: "a fault that the test made",
	})
}
