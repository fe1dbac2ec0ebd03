package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cuvee-vm/cuvee/controller"
	"github.com/cuvee-vm/cuvee/render"
)

type observeFlags struct {
	engineFlags
	output string
	module string
}

func newObserveCommand() *cobra.Command {
	var f observeFlags
	cmd := &cobra.Command{
		Use:   "observe VM",
		Short: "Write what the templates see of a VM, for the stock cue command",
		Long: `Write all that the templates see of a VM: its resource, what they look up in the cluster for it, and what only a controller knows. With
it, and with the templates, the stock cue command makes the objects that the manager applies. With --module the templates are written, too.

The file has all that the templates see. That includes the user-data of cloud-init in the VM's specification, so others cannot read it;
of Secrets the built-in templates see only the metadata.`,
		Example: `  cuvee observe web -o web.json --module module/
  cd module && CUE_DEBUG=sortfields cue export ./templates/vm -t dry ../web.json -e manifests --out text`,
		Args:              oneName,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
		ValidArgsFunction: f.completeVMs,
	}
	f.bind(cmd)
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "a `FILE` to write to, which only you can read; without it standard output")
	bindText(cmd.Flags(), &f.module, "module", "a `DIRECTORY` to write the CUE module with the templates to; it must be new, or empty")
	return cmd
}

// oneName wants the name of a VM.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usage(cmd, errors.New("name one VM"))
	}
	return nil
}

func (f *observeFlags) run(cmd *cobra.Command, name string) error {
	e, err := f.engine(cmd)
	if err != nil {
		return err
	}
	vms, err := e.vms()
	if err != nil {
		return err
	}
	view, err := e.view(cmd.Context(), vms)
	if err != nil {
		return err
	}
	s, err := e.vm(cmd.Context(), view, name)
	if err != nil {
		return err
	}
	resource, err := s.Resource()
	if err != nil {
		return err
	}
	preview, err := view.Preview(vms.candidate, s.Item, resource)
	if err != nil {
		return err
	}
	if f.module != "" {
		if err := e.writeModule(f.module); err != nil {
			return fmt.Errorf("write the templates: %w", err)
		}
	}
	return f.write(cmd, preview)
}

// write writes the input. Of a file nobody else can read it, also if it was there before.
func (f *observeFlags) write(cmd *cobra.Command, p *controller.Preview) error {
	data, err := indentJSON(seen(p.Input))
	if err != nil {
		return err
	}
	if f.output == "" || f.output == "-" {
		fmt.Fprintln(cmd.ErrOrStderr(), "note: this is all that the templates see, such as the user-data of cloud-init in the VM's specification")
		_, err := cmd.OutOrStdout().Write(data)
		return err
	}
	return writePrivate(f.output, data)
}

// seen is an input in the places where the templates have it. Random text is left out: from a dry run there shall be no passwords.
func seen(in render.Input) map[string]any {
	out := map[string]any{"input": render.Clean(in.Document.Object)}
	if len(in.Observed) > 0 {
		out["observed"] = in.Observed
	}
	engine := *in.Engine
	engine.Random = ""
	out["engine"] = engine
	return out
}

// writePrivate writes a file that nobody else can read, in the place of one that is there.
func writePrivate(name string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// writeModule writes the CUE module of the templates into a directory that has nothing in it.
func (e *engine) writeModule(dir string) error {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty", dir)
	}
	module, err := e.files.Module()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.CopyFS(dir, module)
}
