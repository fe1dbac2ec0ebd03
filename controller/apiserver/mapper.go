package apiserver

import (
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Mapper knows how the API server calls kinds, as another one does, and can forget it: that one asks for each kind until it has been found
// once, and never learns that a CustomResourceDefinition is gone.
type Mapper struct {
	config     *rest.Config
	httpClient *http.Client

	mu     sync.RWMutex
	mapper meta.RESTMapper
}

// NewMapper returns a mapper that knows what the given one does, until it has to forget that.
func NewMapper(config *rest.Config, httpClient *http.Client, mapper meta.RESTMapper) *Mapper {
	return &Mapper{config: config, httpClient: httpClient, mapper: mapper}
}

// RESTMapping is how the API server calls a kind. The error is a no-match (meta.IsNoMatchError) for a kind that it does not have.
func (m *Mapper) RESTMapping(kind schema.GroupKind, version string) (*meta.RESTMapping, error) {
	m.mu.RLock()
	mapper := m.mapper
	m.mu.RUnlock()
	return mapper.RESTMapping(kind, version)
}

// Forget has the API server asked again.
func (m *Mapper) Forget() {
	// It asks for nothing yet, and fails for a client only that cannot be made, which there is already.
	fresh, err := apiutil.NewDynamicRESTMapper(m.config, m.httpClient)
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mapper = fresh
}
