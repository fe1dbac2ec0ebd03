// Command fielddoc writes the documents about the fields of Cuvee's kinds: docs/<kind>.md, from the contracts in schema/
// and the settings in templates/. The text around the tables is in the file <kind>.md.tmpl beside this one.
package main

import (
	"bytes"
	"embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/cuvee-vm/cuvee"
	"github.com/cuvee-vm/cuvee/render/crd"
)

//go:embed *.md.tmpl
var texts embed.FS

func main() {
	dir := flag.String("o", "docs", "the directory to write to")
	flag.Parse()
	if err := run(*dir); err != nil {
		fmt.Fprintln(os.Stderr, "fielddoc:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	kinds, err := crd.Load(cuvee.Files)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		text, err := document(k)
		if err != nil {
			return fmt.Errorf("document %s: %w", k.Kind.Kind, err)
		}
		name := filepath.Join(dir, strings.ToLower(k.Kind.Kind)+".md")
		if err := os.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// document fills the kind's text with its tables.
func document(k crd.Kind) ([]byte, error) {
	d, err := describe(k)
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(k.Kind.Kind) + ".md.tmpl"
	t, err := template.New(name).Funcs(template.FuncMap{"cell": cell, "code": code}).ParseFS(texts, name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, d); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// cell makes a text fit into one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

func code(text string) string { return "`" + text + "`" }
