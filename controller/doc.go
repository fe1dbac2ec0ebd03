// Package controller makes and keeps what templates render. One engine serves every template package: which kind it is for,
// what it makes and what it looks at are in the package's CUE. Nothing here knows what a VM is.
//
// A pass over one custom resource is: observe, render, reserve, apply, prune, status. It is level-triggered, and a second
// pass over an unchanged world writes nothing. docs/controller.md has the rules.
package controller
