package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// renders is how often the manager has rendered so far, as its metrics have it; 0 while it does not serve them.
func (b *bench) renders(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.metrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ctx.Err()
	}
	defer answer.Body.Close()
	sum := 0.0
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "cuvee_renders_total{") {
			continue
		}
		_, text, _ := strings.Cut(lines.Text(), "} ")
		var value float64
		if _, err := fmt.Sscan(text, &value); err != nil {
			return 0, fmt.Errorf("read metrics: %q: %w", lines.Text(), err)
		}
		sum += value
	}
	return sum, lines.Err()
}

// freeAddress is one that nobody listened at a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
