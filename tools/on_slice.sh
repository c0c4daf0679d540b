#!/usr/bin/env bash
# on_slice.sh PROGRAM [NAME...]: runs slice_speed or streaming_speed of build/release on a slice
# of the release at true widths (4 layers, 16 experts, 2.7 GiB), which it makes where it is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1
shift
slice=build/slice-checkpoint
if [ ! -e "$slice/config.json" ]; then
  rm -rf "$slice"
  build/release/yeoul make-checkpoint "$slice" --layers 4 --experts 16 --vocab 32768 >&2
fi
exec "build/release/$program" "$slice" "$@"
