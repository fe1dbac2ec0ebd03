// Package helm has the tests of the Helm chart in kustomize/helm, with Helm itself.
package helm
