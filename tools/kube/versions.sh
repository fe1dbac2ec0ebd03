#!/usr/bin/env bash
# Writes go.mod for other versions:
#
#   tools/kube/versions.sh KUBERNETES ETCD KWOK      for instance v1.37.1 v3.7.3 v0.8.0
#
# The go.mod of k8s.io/kubernetes requires its parts (k8s.io/api and so on) as v0.0.0 and replaces them with directories that only
# its repository has. Replace lines count in the main module alone, so ours has one for each part, with the version that it was
# published as: v0.37.1 for v1.37.1.
set -euo pipefail
cd "$(dirname "$0")"
[[ $# == 3 ]] || {
    sed -n '2,/^set/s/^# \?//p' "$0" >&2
    exit 2
}
kubernetes=$1 etcd=$2 kwok=$3

upstream=$(go mod download -json "k8s.io/kubernetes@$kubernetes" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
rm -f go.mod go.sum
go mod init github.com/cuvee-vm/cuvee/tools/kube 2>/dev/null
go mod edit -go "$(sed -n 's/^go //p' ../../go.mod)" \
    -require "k8s.io/kubernetes@$kubernetes" -require "go.etcd.io/etcd/server/v3@$etcd" -require "sigs.k8s.io/kwok@$kwok"
sed -n 's#^[[:space:]]*\(k8s.io/[a-z0-9-]*\) => \./staging/.*#\1#p' "$upstream" | while read -r part; do
    go mod edit -replace "$part=$part@${kubernetes/v1./v0.}"
done
go mod tidy
