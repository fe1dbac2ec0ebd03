#!/usr/bin/env bash
# Builds the images cuvee-manager and cuvee-runner from the Dockerfile with the first of docker, podman and buildah that works here.
#
#   tools/images/build.sh [TAG]      latest if none is given
#
# What the images are built from comes from registries; tools/images/offline.sh does without.
set -euo pipefail
cd "$(dirname "$0")/../.."
tag=${1:-latest}

builder=
for b in docker podman buildah; do
    if command -v "$b" >/dev/null && "$b" info >/dev/null 2>&1; then
        builder=$b
        break
    fi
done
[[ -n $builder ]] || {
    echo "images: neither docker nor podman nor buildah works here; make images-offline needs buildah alone" >&2
    exit 1
}

version=$(git describe --tags --always --dirty 2>/dev/null || echo dev)
for target in manager runner; do
    "$builder" build --target "$target" --build-arg "VERSION=$version" -t "cuvee-$target:$tag" .
done
"$builder" images | grep -E '(^|/)cuvee-(manager|runner) '
