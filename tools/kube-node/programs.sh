#!/usr/bin/env bash
# shellcheck disable=SC2034 # what is set here is for node.sh
# What the nodes of node.sh run, which sources this file: containerd is built, as image volumes take version 2.1; runc and the CNI plugins
# are taken from Debian packages, which are unpacked into .cache/kube-node and not installed.

: "${cache:?}" # where to keep them
containerd_version=v2.4.2

# Unpacks Debian packages, once for each version, and sets root to where.
unpack() { # PACKAGE...
    local key
    key=$(apt-cache show "$@" 2>/dev/null | sed -n 's/^Filename: //p' | sha256sum | cut -c1-12)
    if ! [[ -d $cache/root-$key ]]; then
        rm -rf "$cache"/root-* "$cache/debs"
        mkdir -p "$cache/debs" "$cache/root-new"
        (cd "$cache/debs" && apt-get -o APT::Sandbox::User=root download "$@" >&2)
        for deb in "$cache"/debs/*.deb; do
            dpkg-deb -x "$deb" "$cache/root-new"
        done
        mv "$cache/root-new" "$cache/root-$key"
    fi
    root=$cache/root-$key
}

# Builds containerd's programs, once for each version, and sets containerd to where.
build_containerd() {
    local module=github.com/containerd/containerd/v2 new=$cache/containerd-new
    local tags="urfave_cli_no_docs osusergo netgo static_build no_btrfs no_devmapper no_zfs no_aufs no_tracing"
    local flags="-s -w -X $module/version.Version=$containerd_version"
    containerd=$cache/containerd-$containerd_version
    [[ ! -x $containerd/containerd ]] || return 0
    say "building containerd $containerd_version (once, a few minutes)"
    rm -rf "$new" "$containerd"
    (
        export GOBIN=$new CGO_ENABLED=0
        go install -trimpath -tags "$tags" -ldflags "$flags" "$module/cmd/containerd@$containerd_version" "$module/cmd/ctr@$containerd_version" >&2
        go install -trimpath -tags "$tags no_grpc" -ldflags "$flags" "$module/cmd/containerd-shim-runc-v2@$containerd_version" >&2
    )
    mv "$new" "$containerd"
}
