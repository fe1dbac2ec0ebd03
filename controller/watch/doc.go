// Package watch keeps what the engine needs to know of the cluster's objects, and nothing else of them: of an object that is
// only owned, who owns it and whether it is what was applied; of one that templates look at, the fields that they asked for.
// So ten thousand custom resources with all their objects fit into a small process.
//
// It is not controller-runtime's cache, which keeps whole objects as Go maps, each many times the size of its JSON.
package watch
