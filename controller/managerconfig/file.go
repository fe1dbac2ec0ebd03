package managerconfig

import (
	"fmt"
	"io"
	"os"
)

// maximum keeps a program from reading a file that was named by mistake. A ConfigMap holds no more.
const maximum = 1 << 20

// ReadFile reads a file of not more than a MiB, for [Parse].
func ReadFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maximum+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maximum {
		return nil, fmt.Errorf("%s has more than %d KiB: is this a configuration?", name, maximum>>10)
	}
	return text, nil
}
