//go:build race

package main

// raceDetector is on in this build: it keeps memory of its own.
const raceDetector = true
