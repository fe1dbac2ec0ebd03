#!/usr/bin/env bash
# Makes a container image of one layer from a directory, without a registry or a build daemon:
#
#   image.sh ROOTFS NAME:TAG OUT.tar 'JSON array: entrypoint'
#
# The file is what `docker save` would write, and what `ctr images import` reads. The same directory makes the same image.
set -euo pipefail
rootfs=$1 name=$2 out=$3 entrypoint=$4

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tar -C "$rootfs" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf "$work/layer.tar" .
read -r layer _ < <(sha256sum "$work/layer.tar")
cat >"$work/config.json" <<END
{"architecture":"amd64","os":"linux",
 "config":{"Entrypoint":$entrypoint,"Env":["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],"WorkingDir":"/"},
 "rootfs":{"type":"layers","diff_ids":["sha256:$layer"]},"history":[{"created_by":"tools/kube-node/image.sh"}]}
END
read -r config _ < <(sha256sum "$work/config.json")
mv "$work/config.json" "$work/$config.json"
mkdir "$work/$layer"
mv "$work/layer.tar" "$work/$layer/"
echo "[{\"Config\":\"$config.json\",\"RepoTags\":[\"$name\"],\"Layers\":[\"$layer/layer.tar\"]}]" >"$work/manifest.json"
tar -C "$work" -cf "$out.new" manifest.json "$config.json" "$layer/layer.tar"
mv "$out.new" "$out"
