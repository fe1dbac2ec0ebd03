package consoleserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net/http"
	"strings"
)

// MinToken is the length in bytes of the shortest token that lets anybody in. A shorter one could be guessed.
const MinToken = 16

// tokenProtocol is how the websockets of a browser, which cannot have headers, bring a token, as those of Kubernetes' API server do.
const tokenProtocol = "base64url.bearer.authorization.k8s.io."

// authorized lets only those in who have the token.
func (s *Server) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if s.token != nil && !sameToken(s.token(), tokenOf(req)) {
			s.refuse(w, req)
			return
		}
		welcome(req)
		next.ServeHTTP(w, req)
	})
}

// refuse sends a client away. The right token gets in however many wrong ones come at the same time.
func (s *Server) refuse(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Connection", "close")
	if !s.refusals.Allow() {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many wrong tokens", http.StatusTooManyRequests)
		return
	}
	s.log.Warn("console: a client without the right token was refused", "remote", req.RemoteAddr)
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "the token is missing or wrong", http.StatusUnauthorized)
}

// sameToken compares in a time that tells nothing of either token.
func sameToken(want, got string) bool {
	w, g := sha256.Sum256([]byte(want)), sha256.Sum256([]byte(got))
	return subtle.ConstantTimeCompare(w[:], g[:]) == 1 && len(want) >= MinToken
}

// tokenOf is the token that a client brings, "" if it brings none.
func tokenOf(req *http.Request) string {
	if scheme, token, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(token)
	}
	for _, p := range offered(req) {
		if encoded, ok := strings.CutPrefix(p, tokenProtocol); ok {
			token, err := base64.RawURLEncoding.DecodeString(encoded)
			if err == nil {
				return string(token)
			}
		}
	}
	return ""
}

// offered are the subprotocols that a client offers.
func offered(req *http.Request) []string {
	var all []string
	for _, line := range req.Header.Values("Sec-WebSocket-Protocol") {
		for p := range strings.SplitSeq(line, ",") {
			all = append(all, strings.TrimSpace(p))
		}
	}
	return all
}
