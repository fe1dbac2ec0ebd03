#!/usr/bin/env bash
# Installs Cuvee on a cluster of real nodes, and runs the scripts of tools/e2e/testdata there, two at a time.
#
#   tools/e2e/e2e.sh [ARG...]         each ARG is one for the test binary, such as -test.run=TestScripts/cdrom
#   QUICKSTART=yes tools/e2e/e2e.sh   follows the README's quick start first
#   CLUSTER=existing tools/e2e/e2e.sh uses the cluster of KUBECONFIG
#   CUVEE_E2E=skip tools/e2e/e2e.sh   does nothing but say so
#
# The cluster is that of `make cluster`; one that is not up is started, and ended at the end. Guests are emulated: not every machine that can
# run this can run a guest under KVM.
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { printf '%5ds  %s\n' "$SECONDS" "$*"; }
fail() {
    echo "e2e: $*" >&2
    exit 1
}

case ${CUVEE_E2E:-} in
skip)
    echo "e2e: SKIPPED, as CUVEE_E2E=skip says: nothing is tested on a cluster"
    exit
    ;;
'') tools/cluster/cluster.sh check ;;
*) fail "CUVEE_E2E=$CUVEE_E2E: want skip, or nothing" ;;
esac
work=$(realpath -m .cache/e2e)
export PATH="${KUBEBUILDER_ASSETS:?is not set: run make e2e, or set it to what make kube prints}:$PATH"
CUVEE_CLUSTER=$(realpath -m "${CUVEE_CLUSTER:-.cache/cluster}")
export CUVEE_CLUSTER

# Sets KUBECONFIG.
cluster() {
    local up=no disks
    [[ ! -e /proc/$(cat "$CUVEE_CLUSTER/pid" 2>/dev/null || echo none) ]] || up=yes
    mapfile -t disks < <(tools/e2e/disks.sh)
    [[ ${#disks[@]} == 2 ]] || fail "there are no disks"
    if [[ ${CLUSTER:-} == existing ]]; then
        echo "e2e: its nodes need these, too: ${disks[*]}" >&2
    elif [[ $up == no ]]; then
        down=yes
        # Some scripts move VMs between nodes.
        export NODES=${NODES:-2}
    fi
    KUBECONFIG=$(tools/cluster/cluster.sh kubeconfig)
    export KUBECONFIG
    [[ ${CLUSTER:-} != existing ]] || return 0
    # What was up has images of before.
    [[ $up == no ]] || tools/cluster/cluster.sh load
    tools/cluster/cluster.sh load "${disks[@]}"
}

# The README's quick start begins with a cluster that has no manager.
quickstart() {
    kubectl delete -k tools/e2e/install --ignore-not-found >/dev/null
    (cd tools/e2e && "$work/e2e.test" -test.run='^TestQuickStart$' -test.timeout=60m) || fail "the README's quick start does not work"
}

# As docs/install.md and docs/components.md have it.
install() {
    kubectl apply -f kustomize/crd/vmoperator.jdrupes.org_vms.yaml >/dev/null
    kubectl apply -k kustomize/confine-runner >/dev/null
    kubectl apply -k kustomize/crd/vitistack.io >/dev/null
    kubectl wait crd/vms.vmoperator.jdrupes.org crd/machines.vitistack.io --for=condition=Established --timeout=300s >/dev/null
    kubectl apply -k tools/e2e/install >/dev/null
    # One that is there already may be of before.
    kubectl -n cuvee-system delete pods -l app.kubernetes.io/component=manager >/dev/null
    kubectl -n cuvee-system rollout status deployment/vm-operator --timeout=300s >/dev/null || {
        kubectl -n cuvee-system describe pods >&2
        kubectl -n cuvee-system logs deployment/vm-operator >&2
        fail "the manager is not ready"
    }
    say "the manager is installed, and ready in its pod"
}

# shellcheck disable=SC2317 # called by the trap
end() {
    local code=$?
    trap - EXIT
    [[ ${down:-} != yes ]] || tools/cluster/cluster.sh down || code=1
    exit "$code"
}
trap end EXIT

needs=(e2e)
[[ ${CLUSTER:-} == existing ]] || needs+=(cluster)
tools/need.sh "${needs[@]}"
mkdir -p "$work"
go build -o bin/ ./cmd/cuvee
go build -C tools/device-plugin -o "$PWD/bin/" .
go test -c -tags e2e -o "$work/e2e.test" ./tools/e2e
cluster
case ${QUICKSTART:-no},${CLUSTER:-} in
yes,existing) say "the README's quick start is skipped: it begins with a cluster that is empty, and may be emptied" ;;
yes,) quickstart ;;
esac
install
code=0
(cd tools/e2e && "$work/e2e.test" -test.parallel=2 -test.timeout=90m "$@") || code=$?
kubectl -n cuvee-system logs deployment/vm-operator --tail=-1 >"$work/manager.log"
if grep -m 1 'is forbidden: User' "$work/manager.log" >&2; then
    echo "e2e: the manager lacks a right" >&2
    code=1
fi
echo "figure e2e.wall.s $SECONDS s"
exit "$code"
