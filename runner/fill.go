package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cuvee-vm/cuvee/runner/content"
)

// fillDisks fills the disks that have no content yet, one after the other. While the config can change, a failure is waited out: until the
// config, or a file that it names, is another one, or for some time if that may help. Otherwise it is returned.
func (v *vm) fillDisks(ctx context.Context) error {
	for _, id := range slices.Sorted(maps.Keys(v.cfg.Live.Content)) {
		var pause time.Duration
		var failure string
		for {
			f := v.newFilling(id, failure)
			if f == nil {
				break
			}
			pause = v.pace.after(pause)
			over, err := f.attempt(ctx, pause)
			if err != nil {
				return err
			}
			if over {
				break
			}
			failure = f.state.Message
		}
	}
	return nil
}

// refuseUnfinished refuses block devices that were filled only in part, and that nobody fills any more, as the source was taken out of the
// config: a guest must not run on half a disk.
func (v *vm) refuseUnfinished() error {
	for _, name := range slices.Sorted(maps.Keys(v.cfg.Resolve)) {
		c := v.cfg.Resolve[name]
		if c.Kind == KindAIO && content.IsUnfinished(c.Path) {
			return fmt.Errorf("the disk %s was filled only in part: give it its source again, or another claim", c.Path)
		}
	}
	return nil
}

// attempt tries to fill the disk, and says whether that is over. If another attempt may help it returns when that makes sense.
func (f *filling) attempt(ctx context.Context, pause time.Duration) (bool, error) {
	err := f.run(ctx)
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, errOtherContent):
		return false, nil
	}
	f.failed(err)
	if f.vm.opts.Configs == nil {
		return false, err
	}
	return false, f.awaitOther(ctx, err, pause)
}

// errOtherContent says that the config wants another content meanwhile.
var errOtherContent = errors.New("the disk is to be filled with something else")

// filling is one attempt to fill a disk.
type filling struct {
	vm      *vm
	id      string
	content Content
	size    int64
	changed <-chan struct{}
	// files are the contents of the files that the content is reached with.
	files map[string]string
	state Import
	// failure is that of the attempt before, which is not told again; begun says that this one has been told.
	failure string
	begun   bool
}

// newFilling begins with the newest config; nil if that wants nothing for the disk.
func (v *vm) newFilling(id, failure string) *filling {
	f := &filling{vm: v, id: id, failure: failure}
	if !f.take() {
		return nil
	}
	f.files = f.readFiles()
	f.state = Import{Disk: f.content.Name, Source: f.content.name(), State: Importing, Begun: time.Now()}
	return f
}

// take takes over what the newest config says, and reports whether that is something.
func (f *filling) take() bool {
	var cfg *Config
	cfg, f.changed = f.vm.newest.get()
	f.size = cfg.Live.Disks[f.id].Size
	var wanted bool
	f.content, wanted = cfg.Live.Content[f.id]
	return wanted
}

// other says whether the config, or a file, is not what this filling began with.
func (f *filling) other() bool {
	now := &filling{vm: f.vm, id: f.id}
	wanted := now.take()
	f.changed = now.changed
	return !wanted || now.size != f.size || !reflect.DeepEqual(now.content, f.content) || !maps.Equal(now.readFiles(), f.files)
}

// run fills the disk, unless the config changes its mind.
func (f *filling) run(ctx context.Context) error {
	// A disk with content needs neither image nor Secret, which may not be there any more.
	if state, err := content.Look(f.content.Path); err != nil || state == content.HasContent {
		if err == nil {
			f.done(content.Result{Outcome: content.Kept})
		}
		return err
	}
	if f.failure == "" {
		f.begin()
	}
	source, err := f.source()
	if err != nil {
		return err
	}
	// In a pod it is a volume, on a host it comes with the first disk that needs it.
	if scratch := f.content.Scratch; scratch != "" {
		if err := os.MkdirAll(scratch, 0o700); err != nil {
			return fmt.Errorf("make scratch directory: %w", err)
		}
	}
	filling, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	defer func() { <-watched }()
	defer cancel(nil)
	go func() {
		defer close(watched)
		if f.await(filling, 0) == nil {
			cancel(errOtherContent)
		}
	}()
	result, err := content.Fill(filling, source, content.Target{
		Path: f.content.Path, Size: f.size, Scratch: f.content.Scratch,
		Own: func(path string) error { return f.vm.cfg.Boot.User.own(path) },
	}, f.progress)
	if err != nil {
		if cause := context.Cause(filling); errors.Is(cause, errOtherContent) {
			return cause
		}
		return err
	}
	f.done(result)
	return nil
}

// begin tells that the disk is filled. Of an attempt after a failure that is told when something has come: a server that is away is no
// news each minute.
func (f *filling) begin() {
	f.begun = true
	f.tell(Event{Reason: ReasonImporting, Message: fmt.Sprintf("disk %s is filled with %s", f.state.Disk, f.state.Source)})
}

// progress is called about once a second.
func (f *filling) progress(p content.Progress) {
	if !f.begun {
		f.begin()
	}
	f.state.Bytes, f.state.Total, f.state.Rate = p.Bytes, p.Total, p.Rate
	f.vm.report.imports(f.state, nil)
}

// done tells how it has ended.
func (f *filling) done(r content.Result) {
	f.state.Took, f.state.Rate = time.Since(f.state.Begun), 0
	if r.Outcome == content.Kept {
		f.state.State = ContentKept
		f.tell(Event{Reason: "ContentKept", Message: fmt.Sprintf("disk %s has content already, and is left as it is", f.state.Disk)})
		return
	}
	f.state.State, f.state.Bytes, f.state.Total = Filled, r.Size, r.Size
	f.tell(Event{Reason: "DiskFilled", Message: fmt.Sprintf("disk %s has been filled with %s, %d MiB in %s", f.state.Disk, f.state.Source, r.Size>>20, f.state.Took.Round(time.Second/10))})
}

// failed tells what has gone wrong.
func (f *filling) failed(err error) {
	f.state.State, f.state.Rate, f.state.Message = ImportFailed, 0, err.Error()
	if !f.begun && f.state.Message == f.failure {
		f.vm.log.Debug("disk is still not filled", "disk", f.state.Disk, "error", err)
		return
	}
	f.tell(Event{Warning: true, Reason: ReasonImportFailed, Message: fmt.Sprintf("disk %s: %v", f.state.Disk, err)})
}

func (f *filling) tell(e Event) { f.vm.report.imports(f.state, &e) }

// awaitOther waits until another attempt makes sense.
func (f *filling) awaitOther(ctx context.Context, err error, pause time.Duration) error {
	var fault *content.Error
	if !errors.As(err, &fault) || !fault.Temporary() {
		pause = 0
	}
	return f.await(ctx, pause)
}

// await waits until something else than before is wanted, and as long as the pause at most, if there is one. Its error is the context's.
func (f *filling) await(ctx context.Context, pause time.Duration) error {
	var over <-chan time.Time
	if pause > 0 {
		over = time.After(pause)
	}
	look := time.NewTicker(f.vm.pace.files)
	defer look.Stop()
	for !f.other() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return nil
		case <-f.changed:
		case <-look.C:
		}
	}
	return nil
}

// source is what package content fills the disk with.
func (f *filling) source() (content.Source, error) {
	c := f.content
	if c.Image != nil {
		if _, err := os.Stat(c.Image.Directory); err != nil {
			return content.Source{}, fmt.Errorf("the image %s is not mounted here: a VM that has got another image needs a restart", c.Image.Reference)
		}
		return content.Source{Path: c.Image.Directory, Member: c.Image.Path}, nil
	}
	s := content.Source{Checksum: c.Checksum, Proxy: c.Proxy, Patience: content.Patience{Backoff: f.vm.pace.retryMin}}
	u, err := url.Parse(c.URL)
	if err != nil {
		return s, errors.New("the URL is not valid")
	}
	if u.Scheme == "file" {
		s.Path = u.Path
		return s, nil
	}
	s.URL = c.URL
	if c.CA != nil {
		s.CAFile = c.CA.File
		if f.files[c.CA.File] == "" {
			return s, fmt.Errorf("the ConfigMap %s does not have the certificates, or is not there", c.CA.ConfigMap)
		}
	}
	if c.Credentials != nil {
		s.Credentials, err = f.credentials()
	}
	return s, err
}

// credentialKeys are the keys of a Secret that are of use.
var credentialKeys = []string{"accessKeyId", "password", "secretKey", "token", "username"}

// credentials are what the Secret has.
func (f *filling) credentials() (content.Credentials, error) {
	key := func(name string) string {
		return strings.TrimRight(f.files[filepath.Join(f.content.Credentials.Directory, name)], "\r\n")
	}
	for _, pair := range [][2]string{{"username", "password"}, {"accessKeyId", "secretKey"}} {
		if key(pair[0]) != "" {
			return content.Credentials{Username: key(pair[0]), Password: key(pair[1])}, nil
		}
	}
	if token := key("token"); token != "" {
		return content.Credentials{Authorization: "Bearer " + token}, nil
	}
	return content.Credentials{}, fmt.Errorf("the Secret %s has no username, no accessKeyId and no token, or is not there", f.content.Credentials.Secret)
}

// readFiles reads the files of Secrets and ConfigMaps, which may come and change; a file that is not there is empty.
func (f *filling) readFiles() map[string]string {
	files := map[string]string{}
	read := func(path string) {
		data, _ := os.ReadFile(path)
		files[path] = string(data)
	}
	if c := f.content.CA; c != nil {
		read(c.File)
	}
	if c := f.content.Credentials; c != nil {
		for _, k := range credentialKeys {
			read(filepath.Join(c.Directory, k))
		}
	}
	return files
}

// name is what people are told; a URL's query may be a secret.
func (c Content) name() string {
	if c.Image != nil {
		return c.Image.Reference
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		return "a URL"
	}
	u.RawQuery, u.Fragment, u.User = "", "", nil
	return u.String()
}
