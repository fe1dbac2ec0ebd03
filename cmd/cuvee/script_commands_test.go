package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/rogpeppe/go-internal/testscript"
	"sigs.k8s.io/yaml"

	"github.com/cuvee-vm/cuvee/render"
)

// scriptCommands are the commands that scripts have besides those of testscript.
//
//	changes BASE PATCH [FLAG...]
//		Print what a merge patch (RFC 7396, in YAML) of a custom resource changes in its manifests; the flags are
//		those of cuvee render. Notes about the patched one are on standard error. It fails if the config's revision
//		changes, and no field is named behind it in config.why, or the other way round.
//	changes-site FILE SITE
//		Print what a site's directory changes in a custom resource's manifests.
//	difference FILE1 FILE2
//		Print in which lines two streams of manifests differ.
//	exits CODE PROGRAM [ARG...]
//		Run a program that shall end with this exit code.
//	module DIR
//		Write the CUE that cuvee carries into a directory.
//	parity PACKAGE FILE... [-- FLAG...]
//		Compare what the stock cue command makes of files with what cuvee render with these flags does, byte
//		by byte. The package is a directory of a module.
//	shuffle FILE TO
//		Copy a custom resource with the fields of each object in another order.
//	server-json FILE TO
//		Copy a custom resource as an API server returns it: JSON, fields sorted, with metadata and status of its own.
var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"changes":      cmdChanges,
	"changes-site": cmdChangesSite,
	"difference":   cmdDifference,
	"exits":        cmdExits,
	"module":       cmdModule,
	"parity":       cmdParity,
	"shuffle":      cmdShuffle,
	"server-json":  cmdServerJSON,
}

func noNegation(ts *testscript.TestScript, neg bool) {
	if neg {
		ts.Fatalf("this command cannot be negated")
	}
}

func cmdDifference(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) != 2 {
		ts.Fatalf("usage: difference FILE1 FILE2")
	}
	out, err := manifestChanges(ts.ReadFile(args[0]), ts.ReadFile(args[1]))
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), out)
}

func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if want := args[0]; strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s\n%s", got, want, ts.ReadFile("stderr"))
	}
}

func cmdModule(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) != 1 {
		ts.Fatalf("usage: module DIR")
	}
	ts.Check(layModule(ts.MkAbs(args[0])))
}

func cmdChanges(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) < 2 {
		ts.Fatalf("usage: changes BASE PATCH [FLAG...]")
	}
	base, patch, flags := args[0], args[1], args[2:]
	if i := slices.Index(flags, "--site"); i >= 0 {
		flags[i+1] = ts.MkAbs(flags[i+1])
	}
	before, _ := renderHere(ts, base, flags)

	var object, changes map[string]any
	ts.Check(yaml.Unmarshal([]byte(ts.ReadFile(base)), &object))
	ts.Check(yaml.Unmarshal([]byte(ts.ReadFile(patch)), &changes))
	patched, err := yaml.Marshal(mergePatch(object, changes))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("patched.yaml"), patched, 0o644))
	after, notes := renderHere(ts, "patched.yaml", flags)

	if was, is := whyOf(before), whyOf(after); (was == is) != (revisionLine.FindString(before) == revisionLine.FindString(after)) {
		ts.Fatalf("revision and why do not change together:\n%s\n%s", was, is)
	}
	out, err := manifestChanges(before, after)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), out)
	fmt.Fprint(ts.Stderr(), notes)
}

// renderHere runs cuvee render in this process, which is quicker than in one of its own.
func renderHere(ts *testscript.TestScript, file string, flags []string) (manifests, notes string) {
	var out, errs bytes.Buffer
	args := append([]string{"render", "-f", ts.MkAbs(file)}, flags...)
	if code := run(context.Background(), args, streams{in: strings.NewReader(""), out: &out, err: &errs}); code != exitOK {
		ts.Fatalf("cuvee render: exit code %d\n%s", code, errs.String())
	}
	return out.String(), errs.String()
}

// whyOf cuts the fields behind a restart out of a config.
func whyOf(manifests string) string {
	_, rest, _ := strings.Cut(manifests, "\"why\": {\n")
	why, _, _ := strings.Cut(rest, "    }\n    }\n")
	return why
}

func cmdChangesSite(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) != 2 {
		ts.Fatalf("usage: changes-site FILE SITE")
	}
	before, _ := renderHere(ts, args[0], nil)
	after, _ := renderHere(ts, args[0], []string{"--site", ts.MkAbs(args[1])})
	out, err := manifestChanges(before, after)
	ts.Check(err)
	fmt.Fprint(ts.Stdout(), out)
}

// mergePatch applies a merge patch (RFC 7396).
func mergePatch(target, patch map[string]any) map[string]any {
	out := map[string]any{}
	for k, v := range target {
		out[k] = v
	}
	for k, v := range patch {
		p, isObject := v.(map[string]any)
		if v == nil {
			delete(out, k)
			continue
		}
		if !isObject {
			out[k] = v
			continue
		}
		t, _ := out[k].(map[string]any)
		out[k] = mergePatch(t, p)
	}
	return out
}

var revisionLine = regexp.MustCompile(`"revision": "([0-9a-f]{64})"`)

// manifestChanges prints the lines in which two streams of manifests differ, under the object that they are of. Of a
// config's revision it only says whether it changed, so that nothing else in a base has to do with the outcome.
func manifestChanges(before, after string) (string, error) {
	old := revisionLine.FindString(before)
	before = revisionLine.ReplaceAllString(before, `"revision": "that of the base"`)
	if revisionLine.FindString(after) == old {
		after = strings.ReplaceAll(after, old, `"revision": "that of the base"`)
	} else {
		after = revisionLine.ReplaceAllString(after, `"revision": "another one"`)
	}
	a, err := splitManifests(before)
	if err != nil {
		return "", err
	}
	b, err := splitManifests(after)
	if err != nil {
		return "", err
	}
	names := map[string]bool{}
	for n := range a {
		names[n] = true
	}
	for n := range b {
		names[n] = true
	}
	var out strings.Builder
	for _, n := range slices.Sorted(func(yield func(string) bool) {
		for n := range names {
			if !yield(n) {
				return
			}
		}
	}) {
		if a[n] != b[n] {
			fmt.Fprintf(&out, "== %s\n%s", n, changedLines(a[n], b[n]))
		}
	}
	return out.String(), nil
}

// splitManifests takes a stream apart by kind and name.
func splitManifests(stream string) (map[string]string, error) {
	out := map[string]string{}
	for _, text := range strings.Split(stream, "---\n") {
		if text == "" {
			continue
		}
		var o struct {
			Kind     string
			Metadata struct{ Name string }
		}
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return nil, fmt.Errorf("read manifests: %w", err)
		}
		out[o.Kind+" "+o.Metadata.Name] = text
	}
	return out, nil
}

// changedLines are the removed and added lines, with a line @@ between places.
func changedLines(before, after string) string {
	var out strings.Builder
	apart := false
	for line := range strings.Lines(string(diff.Diff("before", []byte(before), "after", []byte(after)))) {
		switch {
		case strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "+++ ") || strings.HasPrefix(line, "diff ") || strings.HasPrefix(line, "@@"):
		case line[0] == '+' || line[0] == '-':
			if apart && out.Len() > 0 {
				out.WriteString("@@\n")
			}
			apart = false
			out.WriteString(line)
			continue
		}
		apart = true
	}
	return out.String()
}

func cmdParity(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) < 2 {
		ts.Fatalf("usage: parity PACKAGE FILE... [-- FLAG...]")
	}
	pkg, patterns := args[0], args[1:]
	var flags []string
	if i := slices.Index(patterns, "--"); i >= 0 {
		patterns, flags = patterns[:i], patterns[i+1:]
	}
	// The stock command wants to be in the module.
	module := pkg
	for module != "." {
		if _, err := os.Stat(filepath.Join(ts.MkAbs(module), "cue.mod")); err == nil {
			break
		}
		module = filepath.Dir(module)
	}
	rel, err := filepath.Rel(module, pkg)
	ts.Check(err)
	for _, pattern := range patterns {
		files, err := filepath.Glob(ts.MkAbs(pattern))
		ts.Check(err)
		if len(files) == 0 {
			ts.Fatalf("no file %s", pattern)
		}
		for _, file := range files {
			compareWithCue(ts, module, "./"+rel, file, flags)
		}
	}
}

func compareWithCue(ts *testscript.TestScript, module, pkg, file string, flags []string) {
	ts.Check(ts.Exec("cuvee", append([]string{"render", "-f", file}, flags...)...))
	ours := ts.ReadFile("stdout")
	back := ts.MkAbs(".")
	ts.Check(ts.Chdir(module))
	ts.Setenv("CUE_DEBUG", "sortfields")
	err := ts.Exec("cue", "export", pkg, "-t", "dry", "-l", "input:", file, "-e", "manifests", "--out", "text")
	ts.Setenv("CUE_DEBUG", "")
	ts.Check(ts.Chdir(back))
	ts.Check(err)
	if theirs := ts.ReadFile("stdout"); ours != theirs {
		ts.Fatalf("%s:\n%s", file, diff.Diff("cuvee render", []byte(ours), "cue export", []byte(theirs)))
	}
}

func cmdShuffle(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) != 2 {
		ts.Fatalf("usage: shuffle FILE TO")
	}
	object := readObject(ts, args[0])
	var out bytes.Buffer
	writeReversed(&out, object)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out.Bytes(), 0o644))
}

// readObject reads a file of one object, with all digits of its numbers.
func readObject(ts *testscript.TestScript, file string) map[string]any {
	docs, err := render.Decode(file, []byte(ts.ReadFile(file)))
	ts.Check(err)
	if len(docs) != 1 {
		ts.Fatalf("%s has %d objects, want one", file, len(docs))
	}
	return docs[0].Object
}

// writeReversed writes JSON, which is YAML, too, with the fields of each object in falling order.
func writeReversed(out *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		slices.Reverse(keys)
		out.WriteByte('{')
		for i, k := range keys {
			if i > 0 {
				out.WriteByte(',')
			}
			writeReversed(out, k)
			out.WriteByte(':')
			writeReversed(out, v[k])
		}
		out.WriteByte('}')
	case []any:
		out.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				out.WriteByte(',')
			}
			writeReversed(out, x)
		}
		out.WriteByte(']')
	default:
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // It was read from JSON.
		}
		out.Write(text)
	}
}

func cmdServerJSON(ts *testscript.TestScript, neg bool, args []string) {
	noNegation(ts, neg)
	if len(args) != 2 {
		ts.Fatalf("usage: server-json FILE TO")
	}
	object := readObject(ts, args[0])
	metadata := object["metadata"].(map[string]any)
	metadata["generation"] = 3
	metadata["resourceVersion"] = "4711"
	metadata["creationTimestamp"] = "2026-11-20T08:30:00Z"
	metadata["managedFields"] = []any{map[string]any{"manager": "kubectl", "operation": "Apply", "fieldsV1": map[string]any{"f:spec": map[string]any{}}}}
	object["status"] = map[string]any{"cpus": 2, "conditions": []any{}}
	out, err := json.MarshalIndent(object, "", "    ")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), out, 0o644))
}
