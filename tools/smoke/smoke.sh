#!/usr/bin/env bash
# The thin thread from `kubectl apply` to a guest: on a cluster of one real node a VirtualMachine is applied, its guest boots in an
# unprivileged pod, its status says so, and it stops when it is told to. Nothing is left when this ends.
#
# The guest is emulated: not every machine that can run this can run a guest under KVM.
set -euo pipefail
cd "$(dirname "$0")/../.."

patience=600 # seconds for each thing that is waited for
work=.cache/smoke
console=hello.vms.vm.cuvee-vm.github.io # the name in the console's certificate
kubectl=${KUBEBUILDER_ASSETS:?is not set: run make smoke, or set it to what make kube prints}/kubectl

say() { printf '%5ds  %s\n' "$SECONDS" "$*"; }
fail() {
    echo "smoke: $*" >&2
    trouble >&2
    exit 1
}

# What one needs to see why it failed.
trouble() {
    [[ -n ${KUBECONFIG:-} ]] || return 0
    k get vms,statefulsets,pods,pvc,pv -o wide || true
    k get vms -o yaml | sed -n '/^  status:/,$p' || true
    k describe pods || true
    k get events.events.k8s.io || true
    k logs hello-0 --tail=50 || true
    [[ ! -e $work/manager.log ]] || tail -n 50 "$work/manager.log"
}

k() { "$kubectl" -n vms "$@"; }

await() { # WHAT COMMAND...: until the command succeeds
    local what=$1 end=$((SECONDS + patience))
    shift
    until "$@" >/dev/null 2>&1; do
        [[ $SECONDS -lt $end ]] || fail "$what: not within $patience s"
        sleep 1
    done
    say "$what"
}

# ---- The cluster

up() {
    local guest=.cache/demo/guest.raw image dir
    mkdir -p "$(dirname "$guest")"
    go run ./tools/demo-guest -o "$guest" -agent "${guest%/*}/agent.cpio"
    image=$(tools/kube-node/runner-image.sh cuvee.test/cuvee-runner:smoke)
    rm -rf "$work"
    mkdir -p "$work"/{disk,agent,data,images}
    cp --sparse=always "$guest" "$work/disk/disk.img"
    cp "${guest%/*}/agent.cpio" "$work/agent/disk.img"

    # The node ends with our end of its input.
    coproc NODE { exec tools/kube-node/node.sh "$work/node" "$image"; }
    node=$NODE_PID
    read -r -u "${NODE[0]}" KUBECONFIG || fail "there is no node"
    export KUBECONFIG
    dir=$(realpath "$work")
    sed "s|@DIR@|$dir|" tools/smoke/cluster.yaml | "$kubectl" apply -f - >/dev/null
    "$kubectl" apply -k kustomize/crd >/dev/null
    "$kubectl" apply -k kustomize/confine-runner >/dev/null
    k apply -k kustomize/runner >/dev/null
    # The manager is a process of this machine, with the rights that it has in a cluster.
    k apply -f kustomize/base/serviceaccount.yaml -f kustomize/base/role.yaml -f kustomize/base/rolebinding.yaml >/dev/null
    "$kubectl" wait crd/vms.vmoperator.jdrupes.org --for=condition=Established --timeout="${patience}s" >/dev/null
    say "a cluster of one node, with what Cuvee needs in it"
}

# ---- The checks

# vm_says JSONPATH VALUE: does the status say so?
vm_says() { [[ $(k get vm hello -o "jsonpath=$1") == "$2" ]]; }

condition() { echo "{.status.conditions[?(@.type==\"$1\")].status}"; }

# What the guest's web server says to a client in the pods' network, which the API server is here.
page() { "$kubectl" get --raw /api/v1/namespaces/vms/pods/hello-0:8080/proxy/index.html; }

guest_serves() { [[ $(page) == "hello from hello, Linux "* ]]; }

pod_gone() { [[ -z $(k get pods -o name) ]]; }

# cuvee runs a command of ours, as its user would.
cuvee() { bin/cuvee "$@"; }

# What the guest wrote to its serial port, and its screen, by way of the API server and kubelet.
read_console() {
    local line out port forward
    cuvee console hello -n vms --log >"$work/console.log" || fail "the console does not answer"
    tr -d '\r' <"$work/console.log" | grep -x -e 'Cuvee demo guest.*' -e 'hostname: .*' -e 'cuvee-demo: ready' | sed 's/^/        | /'
    grep -q 'cuvee-demo: ready' "$work/console.log" || fail "the guest is not ready on its console"
    cuvee screenshot hello -n vms -o "$work/screen.png" || fail "there is no screenshot"
    [[ $(head -c 4 "$work/screen.png" | tail -c 3) == PNG ]] || fail "the screenshot is no PNG"
    say "the console shows what the guest wrote, and there is its screen"

    k get secret hello-console-tls -o jsonpath='{.data.ca\.crt}' | base64 -d >"$work/ca.crt"
    exec {out}< <(exec setpriv --pdeathsig KILL "$kubectl" -n vms port-forward pod/hello-0 :9478)
    forward=$!
    read -r -u "$out" line || fail "the console's port is not forwarded"
    port=$(sed -n 's/^Forwarding from 127.0.0.1:\([0-9]*\) .*/\1/p' <<<"$line")
    line=$(curl -sS --max-time 60 --cacert "$work/ca.crt" --resolve "$console:$port:127.0.0.1" -o "$work/refused" -w '%{http_code}' \
        "https://$console:$port/console/serial/log") || fail "the console does not answer"
    [[ $line == 401 ]] || fail "the console answers without the token: $line"
    kill "$forward"
    wait "$forward" 2>/dev/null || true
    say "without the token the console shows nothing"
}

# manage starts the manager as its ServiceAccount.
manage() {
    (
        umask 077
        cp "$KUBECONFIG" "$work/manager.kubeconfig"
        k create token vm-operator --duration 2h >"$work/manager.token"
    )
    local config=(config --kubeconfig "$work/manager.kubeconfig")
    "$kubectl" "${config[@]}" set users.vm-operator.tokenFile "$(realpath "$work")/manager.token" >/dev/null
    "$kubectl" "${config[@]}" set-context --current --user=vm-operator >/dev/null
    setpriv --pdeathsig KILL bin/cuvee-manager --kubeconfig "$work/manager.kubeconfig" --templates tools/smoke/site --namespace vms \
        --metrics-bind-address 0 --health-probe-bind-address 0 >"$work/manager.log" 2>&1 &
    manager=$!
}

# QEMU is a process of this machine, too: what the kernel says about it counts.
check_unprivileged() {
    local status qemu=()
    for status in /proc/[0-9]*/status; do
        # The user of settings.pod.user, whom nothing else has.
        if grep -qs $'^Uid:\t10777\t' "$status" && grep -qs '^Name:.qemu-system' "$status"; then
            qemu+=("$status")
        fi
    done
    [[ ${#qemu[@]} == 1 ]] || fail "there are ${#qemu[@]} processes of QEMU with the user 10777"
    for line in $'CapEff:\t0000000000000000' $'CapBnd:\t0000000000000000' $'NoNewPrivs:\t1' $'Seccomp:\t2'; do
        grep -qx "$line" "${qemu[0]}" || fail "QEMU has more rights than it should: want $line; it has $(grep "^${line%%:*}" "${qemu[0]}")"
    done
    say "QEMU has no privileges"
}

# told says whether there is an Event with a reason. grep reads to the end, or kubectl would end by its broken pipe.
told() {
    k get events.events.k8s.io -o jsonpath='{range .items[*]}{.reason}{"\n"}{end}' | grep -x "$1" >/dev/null
}

# ---- The thread

# shellcheck disable=SC2317 # called by the trap
end() {
    local code=$?
    trap - EXIT
    [[ -z ${manager:-} ]] || { kill "$manager" && wait "$manager"; } 2>/dev/null || true
    [[ -z ${node:-} ]] || { kill "$node" && wait "$node"; } 2>/dev/null || true
    exit "$code"
}
trap end EXIT

up
go build -o bin/ ./cmd/cuvee ./cmd/cuvee-manager
manage
k apply -f tools/smoke/vm.yaml >/dev/null
say "the VirtualMachine is applied"
await "the runner says that the VM runs" vm_says "$(condition Running)" True
check_unprivileged
await "the guest has booted, and serves a page" guest_serves
page
await "the runner says that the guest has booted, as its agent answers" vm_says "$(condition Booted)" True
read_console
vm_says '{.status.nodeName}' node1 || fail "the manager does not say which node the VM is on"
cuvee get -n vms
cuvee explain hello -n vms || fail "there is something wrong with a VM that runs"
booted=$(k get pod hello-0 -o 'jsonpath={.metadata.uid}')
cuvee restart hello -n vms --wait --timeout "${patience}s" || fail "the VM does not start again"
[[ $(k get pod hello-0 -o 'jsonpath={.metadata.uid}') != "$booted" ]] || fail "the VM was not restarted"
say "the VM was restarted"
await "the guest has booted again" vm_says "$(condition Booted)" True
cuvee stop hello -n vms --wait --timeout "${patience}s" || fail "the VM does not stop"
await "the pod is gone" pod_gone
await "the guest was powered down, an Event says" told PoweredDown
await "the status says that the VM does not run" vm_says "$(condition Running)" False
k get vms
kill -0 "$manager" || fail "the manager has ended"
if grep -q forbidden "$work/manager.log"; then fail "the manager lacks a right: $(grep -m 1 forbidden "$work/manager.log")"; fi
say "done"
