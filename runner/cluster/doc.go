// Package cluster connects a VM with the Kubernetes cluster that its pod runs in: it reports the VM's status and
// events to the API server, holds the Lease of the VM's block volumes, and says what follows when a guest has shut itself down.
//
// Nothing here ever holds up a VM. What cannot be sent is sent later, and of a status only the newest.
package cluster

// FieldManager is the name that the runner's fields of a VirtualMachine's status are owned under. It never changes: with another
// one, fields of an earlier runner would stay for ever.
const FieldManager = "cuvee.runner"
