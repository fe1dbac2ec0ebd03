package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/cuvee-vm/cuvee/controller/managerconfig"
)

// configFile follows the configuration. It is the templates' [templateset.Settings].
type configFile struct {
	path string
	// namespace is the manager's own.
	namespace string
	log       *slog.Logger

	// text is what was read last, and settings or err what it came to.
	text     []byte
	read     bool
	settings string
	err      error
	// absent says that there was no file, which was told.
	absent bool
	// ineffective are the keys without effect that were told.
	ineffective []string
}

// Name is how messages call the file.
func (c *configFile) Name() string { return filepath.Base(c.path) }

// Read is the file's settings as CUE. There need not be a file.
func (c *configFile) Read() (string, error) {
	text, err := managerconfig.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		if !c.absent {
			c.log.Info("there is no configuration file", "file", c.path)
		}
		c.absent, c.read = true, false
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s: %w", c.path, err)
	}
	if !c.read || !bytes.Equal(text, c.text) {
		config, err := managerconfig.Parse(c.Name(), text)
		c.text, c.read, c.absent, c.settings, c.err = text, true, false, config.Settings, err
		c.tell(config)
	}
	return c.settings, c.err
}

// tell says what of the configuration has no effect.
func (c *configFile) tell(config *managerconfig.Config) {
	if len(config.Ineffective) > 0 && !slices.Equal(config.Ineffective, c.ineffective) {
		c.log.Info("keys of the configuration have no effect here", "file", c.path, "keys", config.Ineffective)
	}
	c.ineffective = config.Ineffective
	if config.Namespace != "" && config.Namespace != c.namespace {
		c.log.Warn("the configuration names another namespace, which takes a manager that is told so when it starts", "file", c.path, "named", config.Namespace, "used", c.namespace)
	}
}

// readConfig reads a configuration. The Config is nil if there is nothing to read; else it has what could be understood.
func readConfig(path string) (*managerconfig.Config, error) {
	text, err := managerconfig.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return managerconfig.Parse(path, text)
}
