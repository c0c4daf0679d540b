#!/usr/bin/env bash
# slice_speed.sh [NAME...]: measures decode_slice and prefill_slice on a slice of the release at
# true widths (4 layers, 16 experts, 2.7 GiB), which it makes first where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
slice=build/slice-checkpoint
if [ ! -e "$slice/config.json" ]; then
  rm -rf "$slice"
  build/release/yeoul make-checkpoint "$slice" --layers 4 --experts 16 --vocab 32768 >&2
fi
exec build/release/slice_speed "$slice" "$@"
