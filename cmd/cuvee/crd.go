package main

import "github.com/spf13/cobra"

func newCRDCommand() *cobra.Command { return &cobra.Command{Use: "crd"} }
