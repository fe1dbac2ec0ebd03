package templateset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"
)

// Defaults of [Options].
const (
	DefaultInterval = time.Second
	DefaultSettle   = 2 * time.Second
	DefaultRetry    = 30 * time.Second
)

// Candidate is a set of packages that compiled and rendered its cases.
type Candidate struct {
	// Packages are all packages of the set.
	Packages []Package

	accepted accepted
}

// Accepts says whether the site accepts that a custom resource ("VirtualMachine default/web") does not render any more.
func (c Candidate) Accepts(object string) bool { return c.accepted.has(object) }

// A Check renders with a candidate every custom resource that rendered before. It returns a [BrokenError] for the first that does not
// render and that the candidate does not accept. Any other error says that it could not find out: it is tried again.
type Check func(ctx context.Context, candidate Candidate) error

// A Keeper keeps the files of the last good set where they outlive the manager, so that it does not depend on a directory
// with a fault when it starts. Load returns nil if nothing was kept.
type Keeper interface {
	Load(ctx context.Context) ([]byte, error)
	// Save may wait; it is given up when there are other files.
	Save(ctx context.Context, data []byte) error
}

// Settings are a site's settings in another form than CUE.
type Settings interface {
	// Name is how messages call the file that they are from, such as config.yaml.
	Name() string
	// Read is the settings as a CUE file, in which each is in the line that it has in the file; "" if there is no file. What is
	// wrong with the file is best told by [render.Faults].
	Read() (string, error)
}

// follows says whether there is anything that may change.
func (o Options) follows() bool { return o.Directory != "" || o.Settings != nil }

// Options of a [Store].
type Options struct {
	// BuiltIn is the CUE module that the program has in it: cuvee.Files.
	BuiltIn fs.FS
	// Directory has the site's files; empty is none.
	Directory string
	// Settings are asked at each look for more CUE, which is laid over as a file of the site's is; nil is none.
	Settings Settings
	// Check is asked before a set takes the place of another; nil is no question.
	Check Check
	// Keeper keeps the last good files; nil is none.
	Keeper Keeper
	// Refused is called once for each problem, Taken for each set that is taken; for Events. They must not block.
	Refused func(Problem)
	Taken   func(revision string)
	// Interval is how often to look at the directory, Settle for how long it has to stay as it is before it counts as whole.
	Interval, Settle time.Duration
	// Retry is after how long a set that did not pass the check is checked again: what does not render with it may have
	// changed, or gone.
	Retry time.Duration
	// Log gets a line for each set that is taken or refused.
	Log *slog.Logger
}

// Store has the current template packages, and follows the directory. It may be used by several goroutines at a time.
type Store struct {
	o       Options
	changed chan struct{}

	mu    sync.Mutex
	state state
}

// state is what the Store knows; it is replaced, never changed.
type state struct {
	packages []Package
	// revision and files are those of the current set.
	revision string
	files    snapshot
	since    time.Time
	// checking is the revision that is being looked at.
	checking string
	problem  *Problem
	refused  int
}

// New makes a store. It has the built-in templates if there is neither a directory nor settings; else those that were kept, or no packages until
// Start has found a whole and good directory. The error says that the built-in templates are not good.
func New(ctx context.Context, o Options) (*Store, error) {
	o.Interval, o.Settle = orElse(o.Interval, DefaultInterval), orElse(o.Settle, DefaultSettle)
	o.Retry = orElse(o.Retry, DefaultRetry)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{o: o, changed: make(chan struct{}, 1)}
	if !o.follows() {
		packages, err := compile(o.BuiltIn, nil, true)
		if err != nil {
			return nil, fmt.Errorf("load the built-in templates: %w", err)
		}
		s.take(ctx, snapshot{}, packages)
		return s, nil
	}
	s.loadKept(ctx)
	return s, nil
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}

// Current are the packages to render with, sorted by name. The list is not changed any more.
func (s *Store) Current() []Package { return s.now().packages }

// Changed gets a value when Current has become another one. It is for one receiver; changes that it has not taken note of are one.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Problem is why the directory's files are not the current ones; nil if they are.
func (s *Store) Problem() *Problem { return s.now().problem }

func (s *Store) now() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

func (s *Store) update(change func(*state)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.state)
}

// NeedLeaderElection says that every manager follows the templates, also one that waits.
func (s *Store) NeedLeaderElection() bool { return false }

// Start follows the directory until the context is done. What is being checked when the files change is given up.
func (s *Store) Start(ctx context.Context) error {
	if !s.o.follows() {
		<-ctx.Done()
		return nil
	}
	w := &directoryWatch{dir: s.o.Directory, settings: s.o.Settings, settle: s.o.Settle}
	tick := time.NewTicker(s.o.Interval)
	defer tick.Stop()
	work := background{}
	defer work.end()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		changed, settled := w.look(time.Now())
		if changed {
			work.end()
		}
		switch {
		case settled && w.err != nil:
			s.refuse("", w.err)
		case settled:
			files := w.files
			work.start(ctx, func(ctx context.Context) { s.consider(ctx, files) })
		}
	}
}

// consider takes files, or says why not. While only the check refuses them it goes on, until the context is done.
func (s *Store) consider(ctx context.Context, files snapshot) {
	revision := files.revision()
	now := s.now()
	if now.packages != nil && revision == now.revision {
		s.settleOn(revision)
		return
	}
	if now.files.hasTemplates() && !files.hasTemplates() {
		s.refuse(revision, errors.New("the directory has no *.cue file any more; to go back to what is built in, leave a file with the line: package vm"))
		return
	}
	if now.files.hasSettings() && !files.hasSettings() {
		s.refuse(revision, fmt.Errorf("%s is not there any more; to go back to what is built in, leave an empty one", s.o.settingsName()))
		return
	}
	s.checking(revision)
	packages, list, err := s.compile(files)
	s.checking("")
	if err != nil {
		s.refuse(revision, err)
		return
	}
	for now.packages != nil && s.o.Check != nil {
		s.checking(revision)
		err := s.o.Check(ctx, Candidate{Packages: packages, accepted: list})
		s.checking("")
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			break
		}
		var broken *BrokenError
		if !errors.As(err, &broken) {
			err = fmt.Errorf("could not be checked, which is tried again: %w", err)
		}
		s.refuse(revision, err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.o.Retry):
		}
	}
	s.take(ctx, files, packages)
}

func (s *Store) checking(revision string) {
	s.update(func(st *state) { st.checking = revision })
}

// settleOn notes that the directory has what is in use.
func (s *Store) settleOn(revision string) {
	if s.Problem() != nil {
		s.o.Log.Info("templates are back at what is in use", "directory", s.o.Directory, "revision", revision)
	}
	s.update(func(st *state) { st.problem = nil })
}

func (s *Store) compile(files snapshot) ([]Package, accepted, error) {
	list, err := parseAccepted(files[AcceptFile])
	if err != nil {
		return nil, nil, err
	}
	packages, err := compile(s.o.BuiltIn, files, true)
	return packages, list, err
}

// take makes files the current ones.
func (s *Store) take(ctx context.Context, files snapshot, packages []Package) {
	s.update(func(st *state) {
		st.packages, st.files, st.revision, st.since, st.problem = packages, files, files.revision(), time.Now(), nil
	})
	s.o.Log.Info("templates taken", "directory", s.o.Directory, "revision", files.revision(), "packages", describe(packages))
	if s.o.Taken != nil {
		s.o.Taken(files.revision())
	}
	select {
	case s.changed <- struct{}{}:
	default:
	}
	if s.o.Keeper == nil || !s.o.follows() {
		return
	}
	data, err := json.Marshal(files)
	if err == nil {
		err = s.o.Keeper.Save(ctx, data)
	}
	if err != nil && ctx.Err() == nil {
		s.o.Log.Error("the templates could not be kept for the next start", "err", err)
	}
}

func (o Options) settingsName() string {
	if o.Settings == nil {
		return "the file of settings"
	}
	return o.Settings.Name()
}

// refuse says why files are not taken. Saying it once is enough.
func (s *Store) refuse(revision string, err error) {
	p := problem(revision, err, time.Now())
	p.rename(settingsCUE, s.o.settingsName())
	if last := s.now().problem; last != nil {
		again := *last
		again.Since = p.Since
		if again == *p {
			return
		}
	}
	s.update(func(st *state) {
		st.problem = p
		st.refused++
	})
	s.o.Log.Error("templates refused, the last good ones stay", "directory", s.o.Directory, "revision", revision, "current", s.now().revision,
		"file", p.File, "line", p.Line, "object", p.Object, "reason", p.Reason)
	if s.o.Refused != nil {
		s.o.Refused(*p)
	}
}

// loadKept starts with the files that were good last.
func (s *Store) loadKept(ctx context.Context) {
	if s.o.Keeper == nil {
		return
	}
	data, err := s.o.Keeper.Load(ctx)
	if err != nil || data == nil {
		if err != nil {
			s.o.Log.Error("the templates that were kept could not be read", "err", err)
		}
		return
	}
	var files snapshot
	if err := json.Unmarshal(data, &files); err != nil {
		s.o.Log.Error("the templates that were kept are not readable", "err", err)
		return
	}
	packages, _, err := s.compile(files)
	if err != nil {
		// They were good with the program that kept them.
		s.o.Log.Error("the templates that were kept are not good with what is built in now", "err", err)
		return
	}
	s.update(func(st *state) {
		st.packages, st.files, st.revision, st.since = packages, files, files.revision(), time.Now()
	})
}

func describe(packages []Package) []string {
	var out []string
	for _, p := range packages {
		out = append(out, p.Name+"@"+p.Revision)
	}
	return out
}
