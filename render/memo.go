package render

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
)

// Memo renders with a set, and remembers the last result of each custom resource: the same input again costs a digest
// instead of an evaluation. What only the engine knows (its clock, random numbers, the resourceVersion) is not part of
// the digest, as it changes all the time; a result keeps what it had when it was made. A Memo may be used by several
// goroutines at a time.
type Memo struct {
	set *Set

	mu      sync.Mutex
	results map[string]remembered
}

type remembered struct {
	digest [sha256.Size]byte
	result *Result
}

// NewMemo returns an empty memo of a set.
func NewMemo(set *Set) *Memo {
	return &Memo{set: set, results: map[string]remembered{}}
}

// Render is [Set.Render], remembered. The result must not be changed.
func (m *Memo) Render(in Input) (*Result, error) {
	digest, err := in.Digest()
	if err != nil {
		return nil, err
	}
	key := memoKey(in.Document.Object)
	m.mu.Lock()
	last, ok := m.results[key]
	m.mu.Unlock()
	if ok && last.digest == digest {
		return last.result, nil
	}
	r, err := m.set.Render(in)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	m.results[key] = remembered{digest: digest, result: r}
	m.mu.Unlock()
	return r, nil
}

// Forget drops what is remembered of a custom resource that is gone.
func (m *Memo) Forget(namespace, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.results, namespace+"/"+name)
}

func memoKey(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	namespace, _ := metadata["namespace"].(string)
	return namespace + "/" + name(object)
}

// Digest stands for what templates see of an input, but for what only the engine knows.
func (in Input) Digest() ([sha256.Size]byte, error) {
	// encoding/json sorts the keys of maps.
	data, err := json.Marshal([]any{clean(in.Document.Object), in.Observed, in.Values})
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("digest input: %w", err)
	}
	return sha256.Sum256(data), nil
}
