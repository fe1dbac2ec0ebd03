package testserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// auditPolicy has an entry for each request that has been answered, and none for those of the API server to itself.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
  - level: None
    users: ["system:apiserver"]
  - level: Metadata
`

// Request is a request that the server has answered.
type Request struct {
	// User and Agent are who sent it: the name that authentication found, and what the program calls itself.
	User, Agent string
	// Verb is get, list, watch, create, update, patch, delete or deletecollection.
	Verb string
	// Group, Resource and Subresource say what it was for, in the plural; Namespace and Name which.
	Group, Resource, Subresource, Namespace, Name string
	// Code is that of the answer, and Message says why it is a refusal.
	Code    int
	Message string
}

// String is the request on one line.
func (r Request) String() string {
	resource := r.Resource
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	message := r.Message
	if message != "" {
		message += " "
	}
	return fmt.Sprintf("%s %s %s/%s %d %s(%s, %s)", r.Verb, resource, r.Namespace, r.Name, r.Code, message, r.User, r.Agent)
}

// IsWrite says whether the request was to change something.
func (r Request) IsWrite() bool { return !slices.Contains([]string{"get", "list", "watch"}, r.Verb) }

// IsLease says whether it was to keep a lease, as leader election does all the time.
func (r Request) IsLease() bool { return r.Group == "coordination.k8s.io" && r.Resource == "leases" }

// Mark is a moment in the audit log.
type Mark int64

// lineLimit is longer than any line of the audit log.
const lineLimit = 1 << 20

// Mark is now: the end of the last whole line, as one may be being written.
func (s *Server) Mark() (Mark, error) {
	mark, err := s.lastLineEnd()
	if err != nil {
		return 0, fmt.Errorf("read the audit log: %w", err)
	}
	return mark, nil
}

func (s *Server) lastLineEnd() (Mark, error) {
	f, err := os.Open(s.auditLog())
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return 0, err
	}
	from := max(0, size-lineLimit)
	rest := make([]byte, size-from)
	if _, err := f.ReadAt(rest, from); err != nil {
		return 0, err
	}
	return Mark(from) + Mark(bytes.LastIndexByte(rest, '\n')+1), nil
}

// Since returns the requests since a moment that pass the filter, in the order of their answers. A request whose answer
// has only just arrived may be missing still.
func (s *Server) Since(mark Mark, filter func(Request) bool) ([]Request, error) {
	out, _, err := s.Follow(mark, filter)
	return out, err
}

// Follow is Since, and returns the moment from which to go on.
func (s *Server) Follow(mark Mark, filter func(Request) bool) ([]Request, Mark, error) {
	f, err := os.Open(s.auditLog())
	if err != nil {
		return nil, mark, fmt.Errorf("read the audit log: %w", err)
	}
	defer f.Close()
	if _, err := f.Seek(int64(mark), io.SeekStart); err != nil {
		return nil, mark, fmt.Errorf("read the audit log: %w", err)
	}
	var out []Request
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			// The rest is a line that is being written.
			return out, mark, nil
		}
		if err != nil {
			return nil, mark, fmt.Errorf("read the audit log: %w", err)
		}
		mark += Mark(len(line))
		r, err := parseRequest(line)
		if err != nil {
			return nil, mark, fmt.Errorf("read the audit log: %w", err)
		}
		if filter(r) {
			out = append(out, r)
		}
	}
}

func parseRequest(line []byte) (Request, error) {
	var e struct {
		Verb      string
		UserAgent string
		User      struct{ Username string }
		ObjectRef struct {
			APIGroup, Resource, Subresource, Namespace, Name string
		}
		ResponseStatus struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return Request{}, err
	}
	return Request{
		User: e.User.Username, Agent: e.UserAgent, Verb: e.Verb,
		Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
		Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
		Code: e.ResponseStatus.Code, Message: e.ResponseStatus.Message,
	}, nil
}

// Count counts requests by verb and resource, for instance "patch configmaps".
func Count(requests []Request) map[string]int {
	out := map[string]int{}
	for _, r := range requests {
		resource := r.Resource
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		out[r.Verb+" "+resource]++
	}
	return out
}

func (s *Server) auditLog() string { return filepath.Join(s.dir, "audit.log") }
