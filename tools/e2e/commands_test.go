//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// commands are the commands that scripts have besides those of testscript; README.md says more.
//
//	await PATTERN PROGRAM [ARG...]
//		Run a program until it succeeds and its output matches, and what it printed is standard output.
//	guest VM COMMAND
//		Type a command at the VM's serial console, when its guest has booted; what it printed is standard output.
//	expand FILE...
//		Replace variables of the script, as ${URL}, in files.
//	serve http|https DIR
//		Serve a directory to pods until the script ends, at $URL; the authority of https is written to ca.crt.
//	processes [-n NAMESPACE] SELECTOR NAME
//		Print the ids of the processes with a name in the pods of a selector.
//	alone FILE
//		From now on there is never more than one QEMU that has a file open.
var commands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	"alone":     cmdAlone,
	"await":     cmdAwait,
	"expand":    cmdExpand,
	"guest":     cmdGuest,
	"processes": cmdProcesses,
	"serve":     cmdServe,
}

// variables is the key of the names of a script's environment variables.
type variables struct{}

func variableNames(env []string) []string {
	var names []string
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// command is a program as a line of the script would start it. What it prints is not in the script's log.
func command(ctx context.Context, ts *testscript.TestScript, program string, args ...string) *exec.Cmd {
	// env looks for the program where the script would.
	cmd := exec.CommandContext(ctx, "/usr/bin/env", append([]string{program}, args...)...)
	cmd.Dir = ts.MkAbs(".")
	names, _ := ts.Value(variables{}).([]string)
	for _, name := range names {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	// A program that ignores it is ended.
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await PATTERN PROGRAM [ARG...]")
	}
	pattern, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), *patience)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var stdout, stderr bytes.Buffer
		cmd := command(ctx, ts, args[1], args[2:]...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if err == nil && pattern.Match(stdout.Bytes()) {
			fmt.Fprint(ts.Stdout(), stdout.String())
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ts.Logf("[stdout]\n%s[stderr]\n%s", stdout.String(), stderr.String())
			ts.Fatalf("not within %s: a match of %q (%v)", *patience, args[0], err)
		}
	}
}

// variable is one of the script; those of shells and guests are in lower case.
var variable = regexp.MustCompile(`\$\{[A-Z]+\}`)

func cmdExpand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: expand FILE...")
	}
	for _, file := range args {
		text := variable.ReplaceAllStringFunc(ts.ReadFile(file), func(match string) string {
			value := ts.Getenv(strings.Trim(match, "${}"))
			if value == "" {
				ts.Fatalf("%s: the variable %s is empty", file, match)
			}
			return value
		})
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
	}
}
