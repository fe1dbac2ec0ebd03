// Package e2e tests Cuvee where its users have it: on a cluster with real nodes, with kubectl, cuvee, and guests that boot. There is
// nothing in it but tests. Those on a cluster take the build tag e2e, and `make e2e` runs them.
//
// Each script in testdata is one behaviour, and runs in a namespace of its own that enforces the Pod Security Standard "restricted".
// README.md in this directory says what a script finds there.
package e2e
