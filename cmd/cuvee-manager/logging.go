package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/controller/managerconfig"
)

// newLog is a handler that writes JSON lines.
func newLog(to io.Writer, level slog.Leveler) slog.Handler {
	return slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.TimeKey:
			a.Key = "timestamp"
		case slog.MessageKey:
			a.Key = "message"
		case slog.LevelKey:
			a.Value = slog.StringValue(strings.ToLower(a.Value.String()))
		}
		return a
	}})
}

// levelFileName is the file beside the configuration that says from which level on to log.
const levelFileName = "logging.properties"

// levelOff is above every level.
const levelOff = slog.Level(1000)

// javaLevels are the levels of java.util.logging.
var javaLevels = map[string]slog.Level{
	"SEVERE": slog.LevelError, "WARNING": slog.LevelWarn, "INFO": slog.LevelInfo, "CONFIG": slog.LevelInfo, "FINE": slog.LevelDebug,
	"FINER": slog.LevelDebug, "FINEST": slog.LevelDebug, "ALL": slog.LevelDebug, "OFF": levelOff,
}

// levelKeys are the loggers whose level is that of the manager: the more precise goes first. What is said of other loggers, and of
// handlers, concerns parts that only VM-Operator has.
var levelKeys = []string{"org.jdrupes.vmoperator.manager.level", "org.jdrupes.vmoperator.level", ".level"}

// parseLevel is the level that a file of the form of java.util.logging says; false if it says none.
func parseLevel(text []byte) (level slog.Level, ok bool, err error) {
	place := len(levelKeys)
	scanner := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; scanner.Scan(); n++ {
		line := strings.TrimSpace(scanner.Text())
		if line == "" || line[0] == '#' || line[0] == '!' {
			continue
		}
		end := strings.IndexAny(line, "=: \t")
		if end < 0 {
			continue
		}
		key := line[:end]
		i := slices.Index(levelKeys, key)
		if i < 0 || i > place {
			continue
		}
		word := strings.TrimSpace(strings.TrimLeft(line[end:], "=: \t"))
		l, known := javaLevels[word]
		if !known {
			return 0, false, fmt.Errorf("line %d: %s is %q, want SEVERE, WARNING, INFO, CONFIG, FINE, FINER, FINEST, ALL or OFF", n, key, word)
		}
		place, level, ok = i, l, true
	}
	return level, ok, scanner.Err()
}

// levelFile follows a file that says from which level on to log.
type levelFile struct {
	path string
	// level is set; fallback is what it is when the file says none.
	level    *slog.LevelVar
	fallback slog.Level
	log      *slog.Logger

	problem string
}

func (f *levelFile) NeedLeaderElection() bool { return false }

// Start looks at the file every second: as the templates' files it may be swapped by kubelet.
func (f *levelFile) Start(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		f.look()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look takes over what the file says. What is wrong is said once, and changes nothing.
func (f *levelFile) look() {
	level, ok := f.fallback, false
	text, err := managerconfig.ReadFile(f.path)
	if err == nil {
		level, ok, err = parseLevel(text)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		if f.problem != err.Error() {
			f.log.Error("the level of the log cannot be read, it stays", "file", f.path, "err", err)
		}
		f.problem = err.Error()
		return
	}
	f.problem = ""
	if !ok {
		level = f.fallback
	}
	if level != f.level.Level() {
		f.level.Set(level)
		f.log.Info("the level of the log has changed", "level", level)
	}
}

// besideConfig is the path of a file in the directory of the configuration.
func besideConfig(config, name string) string { return filepath.Join(filepath.Dir(config), name) }
