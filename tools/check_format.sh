#!/usr/bin/env bash
# check_format.sh [ROOT]: fails when clang-format 19 would change a C++ file of ROOT.
set -euo pipefail
root=${1:-.}
folders=()
for folder in src apps tests; do
  [ -d "$root/$folder" ] && folders+=("$root/$folder")
done
find "${folders[@]}" \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs -0 clang-format-19 --style="file:$root/.clang-format" --dry-run -Werror
echo "format: ok"
