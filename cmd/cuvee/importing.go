package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// reasonCell is the reason of Ready, with how far it is where that is known.
func reasonCell(vm unstructured.Unstructured) string {
	reason := conditionOf(vm.Object, "Ready").reason
	if reason != reasonImporting {
		return reason
	}
	for _, i := range items(vm.Object, "status", "imports") {
		if percent := text(i, "percent"); percent != "" {
			return reason + " " + percent + "%"
		}
	}
	return reason
}

// The reasons of a runner that fills disks.
const (
	reasonImporting    = "Importing"
	reasonImportFailed = "ImportFailed"
)

// importLines are the disks that are being filled, or could not be, a line each.
func importLines(vm map[string]any) []string {
	var lines []string
	for _, i := range items(vm, "status", "imports") {
		line := text(i, "disk") + ": "
		switch {
		case text(i, "message") != "":
			line += text(i, "message")
		case text(i, "percent") != "":
			line += text(i, "percent") + "% of " + text(i, "source")
		default:
			line += "filled with " + text(i, "source")
		}
		if rate := number(i, "bytesPerSecond"); rate > 0 {
			line += fmt.Sprintf(", %.1f MB/s", float64(rate)/1e6)
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}
