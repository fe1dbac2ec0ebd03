#!/usr/bin/env bash
# Boots examples/hello.yaml with a guest disk made from Debian packages, its console in the terminal.
#
# Without a terminal, or with DEMO=once, nobody is there to press Ctrl-C: then it asks the guest to power
# down as soon as it says that it is ready, and fails if that does not come.
set -euo pipefail
cd "$(dirname "$0")/.."

disk=.cache/demo/guest.raw
ready='cuvee-demo: ready'
patience=300 # seconds, from the start of QEMU to the end

cuvee=(bin/cuvee run -f examples/hello.yaml --disk "system=$disk")

echo "Building bin/cuvee ..."
go build -o bin/cuvee ./cmd/cuvee
if ! [[ -e $disk ]]; then
    echo "Making the guest disk $disk from Debian packages (once) ..."
fi
mkdir -p "$(dirname "$disk")"
go run ./tools/demo-guest -o "$disk"

echo
echo "This runs:  ${cuvee[*]}"
echo
echo "The virtual machine of examples/hello.yaml becomes a QEMU process. Below is its serial console: the"
echo "kernel starts, then the guest shows the hostname and the message that it was given by cloud-init."

if [[ -t 0 && ${DEMO:-} != once && -z ${CI:-} ]]; then
    echo "To leave, press Ctrl-C: the guest is asked to power down, as by its power button."
    echo
    exec "${cuvee[@]}"
fi

echo "Once the guest is ready it is asked to power down."
echo
exec {console}< <(exec timeout --foreground --kill-after=60 "$patience" "${cuvee[@]}" </dev/null 2>&1)
vm=$!
seen=no
while IFS= read -r line <&"$console"; do
    printf '%s\n' "${line%$'\r'}"
    if [[ $seen == no && $line == *"$ready"* ]]; then
        seen=yes
        kill -TERM "$vm"
    fi
done
wait "$vm" || {
    code=$?
    [[ $code != 124 ]] || echo "demo: this took more than $patience seconds" >&2
    echo "demo: cuvee run ended with exit code $code" >&2
    exit 1
}
if [[ $seen == no ]]; then
    echo "demo: the guest went off before it was ready" >&2
    exit 1
fi
echo "The guest powered down; the demo is over."
