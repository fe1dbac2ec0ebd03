package consoleserver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// SocketName is the name of the socket in the runtime directory of a VM that runs without a cluster.
const SocketName = "console.sock"

// ListenUnix makes a socket that only its user can connect to. What is left of an older one is replaced.
func ListenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen: %w", err)
	}
	return l, nil
}
