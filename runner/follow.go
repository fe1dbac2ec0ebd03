package runner

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cuvee-vm/cuvee/runner/filewatch"
)

// ReadConfig reads a config from a file.
func ReadConfig(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return ParseConfig(data)
}

// FollowConfig reads the config in a file, and each one that is there later, for Options.Configs. A later one that
// cannot be read is logged and left out. The channel is closed when the context ends.
func FollowConfig(ctx context.Context, path string, log *slog.Logger) (*Config, <-chan *Config, error) {
	return followConfig(ctx, path, log, filewatch.Interval)
}

func followConfig(ctx context.Context, path string, log *slog.Logger, interval time.Duration) (*Config, <-chan *Config, error) {
	changed := filewatch.Watch(ctx, interval, path)
	first, err := ReadConfig(path)
	if err != nil {
		return nil, nil, err
	}
	configs := make(chan *Config)
	go func() {
		defer close(configs)
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			c, err := ReadConfig(path)
			if err != nil {
				log.Warn("new config is left out", "error", err)
				continue
			}
			select {
			case configs <- c:
			case <-ctx.Done():
			}
		}
	}()
	return first, configs, nil
}
