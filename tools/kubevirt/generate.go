// Package kubevirt has KubeVirt's own types and definitions, in a module of its own: its dependencies never meet the product's.
// The definitions in crd are made of the types, as KubeVirt makes its own; without descriptions, for tests.
package kubevirt

//go:generate go tool controller-gen crd:crdVersions=v1,generateEmbeddedObjectMeta=false,allowDangerousTypes=true,maxDescLen=0 paths=kubevirt.io/api/core/v1 output:crd:dir=crd
//go:generate sh -c "cd crd && ls | grep -vx -e kubevirt.io_virtualmachines.yaml -e kubevirt.io_virtualmachineinstances.yaml | xargs rm"
