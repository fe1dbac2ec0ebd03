package templateset

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// directoryWatch looks at a directory from time to time. That works on every file system and with every way of replacing files,
// and costs less than a millisecond a look; kubelet itself takes up to a minute.
type directoryWatch struct {
	dir      string
	settings Settings
	settle   time.Duration

	// files, or err, are what was there when it was looked at last.
	files snapshot
	err   error
	seen  string
	since time.Time
	// done says that it was told that what is there has settled.
	done bool
}

// look reads the directory. It says whether it has changed since the last time, and whether it has stayed as it is for long
// enough, the first time that it has. A directory that cannot be read is a state like others, as it may be on its way back.
func (w *directoryWatch) look(now time.Time) (changed, settled bool) {
	w.files, w.err = w.read()
	seen := w.files.revision()
	if w.err != nil {
		seen = "error: " + w.err.Error()
	}
	if seen != w.seen {
		w.seen, w.since, w.done = seen, now, false
		return true, false
	}
	if w.done || now.Sub(w.since) < w.settle {
		return false, false
	}
	w.done = true
	return false, true
}

// read reads the directory and the settings.
func (w *directoryWatch) read() (snapshot, error) {
	files := snapshot{}
	if w.dir != "" {
		var err error
		if files, err = readDirectory(w.dir); err != nil {
			return nil, fmt.Errorf("read %s: %w", w.dir, err)
		}
	}
	if w.settings == nil {
		return files, nil
	}
	text, err := w.settings.Read()
	if err != nil {
		return nil, err
	}
	if text != "" {
		files[settingsFile] = text
	}
	return files, nil
}

// background does one thing at a time.
type background struct {
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

func (b *background) start(ctx context.Context, do func(context.Context)) {
	b.end()
	ctx, b.cancel = context.WithCancel(ctx)
	b.wait.Go(func() { do(ctx) })
}

// end gives up what is being done, and returns when that has ended.
func (b *background) end() {
	if b.cancel != nil {
		b.cancel()
		b.wait.Wait()
		b.cancel = nil
	}
}
