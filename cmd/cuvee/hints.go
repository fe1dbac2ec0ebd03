package main

// hintNoManager is for a VM that no manager looks at.
const hintNoManager = "see whether cuvee-manager runs, and works in this namespace: kubectl get deployments -A -l app.kubernetes.io/name=vm-operator"

// hints say what to do, by the reason of a condition. A test holds their reasons to the tables of docs/controller.md and docs/status.md.
var hints = map[string]string{
	// Of the engine.
	"ApplyFailed":        "the message is the API server's; it is tried again by itself, at the latest after two minutes",
	"Conflict":           "give the object or the field up where it comes from, or leave it to the manager: docs/controller.md",
	"Contested":          "find who changes the object all the time, and stop it",
	"Deleting":           "the resource goes when its pod has gone",
	"InvalidSpec":        "correct these fields; cuvee vet -f FILE checks a file before it is applied",
	"TemplateError":      "the site's templates do not render: see the manager's log, and try them with cuvee render --site DIR",
	"WaitingForDeletion": "wait until the object has gone; if it does not, look at its finalizers",
	"WaitingForKind":     "install the CustomResourceDefinition of the kind, or switch off what makes such objects",
	"WaitingForWatch":    "give the manager the right that the message names",
	// Of the templates of VirtualMachines.
	"ClaimPending":         "a claim has no volume: see its StorageClass, and kubectl describe pvc",
	"ConfigurationChanged": "cuvee restart makes these changes take effect",
	"ContainerError":       "kubelet cannot make the container: kubectl describe pod has its words",
	"CrashLoop":            "the container ends again and again: kubectl logs --previous has its last words",
	"GuestStarting":        "the runner prepares disks and starts QEMU; if this stays, read its log: kubectl logs",
	"ImagePull":            "the image cannot be had: see its name (settings.image, spec.image), the registry, and the pull secrets",
	"NodeLost":             "the node does not answer: bring it back, or delete its pods by force if it is surely switched off",
	"PodEnded":             "the StatefulSet makes another pod by itself",
	"PodTerminating":       "the guest powers down; after spec.vm.powerdownTimeout seconds it is ended",
	"RepositoryUnbound":    "make the claim for the image repository, or bind it, or switch it off (settings.imageRepository)",
	"Stopping":             "the guest powers down; after spec.vm.powerdownTimeout seconds it is ended",
	"Unschedulable":        "no node has what the pod asks for: its CPUs, memory, volumes, /dev/kvm, or labels",
	"WaitingForPod":        "Kubernetes makes the pod; if this stays, kubectl describe statefulset says why",
	// Of the runner.
	"GuestPanicked":   "the guest's kernel has crashed: see cuvee console --log, then cuvee reset",
	"IOError":         "a disk did not take or give data: see the volume; the guest goes on when it does",
	"NoSpace":         "a disk's volume is full: make it larger, and the guest goes on",
	"Refused":         "QEMU refuses the change: undo it, or restart the VM",
	"VmFailed":        "QEMU has failed; it is started again by itself, the message and kubectl logs have the reason",
	"VmPaused":        "somebody has paused the guest",
	"VmStopped":       "the manager starts it if it shall run",
	"VmTerminating":   "the guest powers down",
	"WaitingForGuest": "the guest has not done its part yet; this takes a driver or a rule in the guest: docs/runner.md",
	"Watchdog":        "the guest's watchdog has stopped it: see cuvee console --log, then cuvee reset",
}
