// Package managerconfig reads the configuration file of a manager, config.yaml, in the form that VM-Operator gave it: keys that begin
// with a slash select a component, and what is below them are the component's properties. What has a meaning here becomes settings of
// the templates, as CUE; what VM-Operator knows and this manager does not need is accepted, and named; all else is a fault.
package managerconfig
