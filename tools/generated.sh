#!/usr/bin/env bash
# Fails, naming the files, if `go generate` changes any file of the work tree, or makes a new one.
#
# It compares the tree with itself, before and after, so that it also works among changes that are not
# committed yet.
set -euo pipefail
cd "$(dirname "$0")/.."

tree() {
    git ls-files -z --cached --others --exclude-standard | sort -zu | while IFS= read -r -d '' file; do
        [[ ! -f $file ]] || sha256sum "$file"
    done
}

before=$(tree)
go generate ./...
after=$(tree)

[[ $before != "$after" ]] || exit 0
echo "generated files were not current; run 'make generate' and commit:" >&2
diff <(echo "$before") <(echo "$after") | sed -n 's/^[<>] [0-9a-f]*  /  /p' | sort -u >&2
exit 1
