#!/usr/bin/env bash
# Builds a Kubernetes to test on: etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy, kubectl, kwok,
# and kube-up, which starts a control plane of them. Prints the directory with the programs, which is what KUBEBUILDER_ASSETS is for.
#
# What was built is kept in .cache/kube under a name made from what it was built from, so that only new versions, or a new Go, build
# anew; .cache/kube/bin leads to the newest.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cache=$(realpath -m "$here/../../.cache/kube")
cd "$here"

programs=(etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl kwok)

# As they were released: without cgo, and with their versions, which clients and servers tell each other.
export CGO_ENABLED=0 GOFLAGS="-buildvcs=false -mod=readonly"

say() { echo "kube: $*" >&2; }

# Tells that a long build goes on, by how many packages are compiled, until it is killed.
progress() { # FILE with a line for each compiled package
    local start=$SECONDS
    trap 'kill "$!"; exit' TERM
    while sleep 60 & wait "$!"; do
        say "... $((SECONDS - start)) s, $(wc -l <"$1") packages compiled"
    done
}

# The versions of go.mod, in the form that the linker writes them into the programs.
version_flags() {
    local version major minor package
    version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
    IFS=. read -r major minor _ <<<"${version#v}"
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        printf -- '-X %s.gitVersion=%s -X %s.gitMajor=%s -X %s.gitMinor=%s ' \
            "$package" "$version" "$package" "$major" "$package" "$minor"
        printf -- '-X %s.gitTreeState=clean -X %s.gitCommit=unknown -X %s.buildDate=1970-01-01T00:00:00Z ' \
            "$package" "$package" "$package"
    done
}

# Kwok does nothing without stages, which say how pods, nodes and claims come to be; these are its own, the fast ones.
write_stages() { # KUBECTL STAGES-FILE STORAGE-CLASS-FILE
    local stages
    stages=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
    "$1" kustomize "$stages/fast" >"$2"
    for stage in pvc-provision pv-bind pv-delete pvc-delete; do
        printf -- '---\n'
        cat "$stages/volume/fast/$stage.yaml"
    done >>"$2"
    cp "$stages/volume/fast/storage-class.yaml" "$3"
}

build() { # DIRECTORY
    local start=$SECONDS log=$1.log reporter code=0
    rm -rf "$1"
    mkdir -p "$1"
    say "building Kubernetes $(go list -m -f '{{.Version}}' k8s.io/kubernetes) into ${2#"$PWD/"} (once; about 12 minutes of one CPU, and 4 GB of memory)"
    : >"$log"
    progress "$log" &
    reporter=$!
    go build -v -trimpath -ldflags "-s -w $(version_flags)" -o "$1/kube" . 2>"$log" || code=$?
    kill "$reporter" 2>/dev/null || true
    if [[ $code != 0 ]]; then
        grep -v '^[a-z0-9./_-]*$' "$log" >&2 || tail -n 20 "$log" >&2
        say "the build failed"
        return "$code"
    fi
    for program in "${programs[@]}"; do
        ln -s kube "$1/$program"
    done
    write_stages "$1/kubectl" "$1/kwok-stages.yaml" "$1/kwok-storage-class.yaml"
    rm -f "$log"
    say "built in $((SECONDS - start)) s"
}

key=$( (cat go.mod go.sum ./*.go build.sh && go env GOVERSION GOOS GOARCH) | sha256sum | cut -c1-12)
dir=$cache/$key
mkdir -p "$cache"

# Two that build at the same time would only wait for each other's memory.
exec {lock}>"$cache/lock"
flock "$lock"
if ! [[ -d $dir ]]; then
    # Elsewhere first, so that a build that was interrupted is never taken for a whole one.
    rm -rf "$cache"/.new-*
    build "$cache/.new-$key" "$dir"
    mv "$cache/.new-$key" "$dir"
fi
(cd ../kube-up && go build -trimpath -o "$dir/kube-up" .)
ln -sfn "$key" "$cache/bin"
echo "$cache/bin"
