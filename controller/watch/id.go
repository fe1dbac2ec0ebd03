package watch

import (
	"crypto/sha256"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"
)

// uuidLength is that of a UUID's text in its usual form.
const uuidLength = 36

// id stands for a UID: it is the number of a UUID, as the API server makes them, and a digest of any other text. It is zero for none.
type id [16]byte

func idOf(uid types.UID) id {
	text := string(uid)
	u, err := uuid.Parse(text)
	if err != nil || u == uuid.Nil || len(text) != uuidLength || text != strings.ToLower(text) {
		return digestOf(text)
	}
	return id(u)
}

// text is the UID, if it is a UUID as the API server writes them; empty for none.
func (i id) text() types.UID {
	if i == (id{}) {
		return ""
	}
	return types.UID(uuid.UUID(i).String())
}

// digestOf stands for a text; it is zero for none.
func digestOf(text string) (out [16]byte) {
	if text == "" {
		return out
	}
	sum := sha256.Sum256([]byte(text))
	copy(out[:], sum[:])
	return out
}
