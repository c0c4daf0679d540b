#!/usr/bin/env bash
# streaming_speed.sh NAME...: measures experts_streamed and engram_cold on the slice of the release
# that tools/slice_speed.sh uses, which it makes first where it is missing (2.7 GiB).
set -euo pipefail
cd "$(dirname "$0")/.."
slice=build/slice-checkpoint
if [ ! -e "$slice/config.json" ]; then
  rm -rf "$slice"
  build/release/yeoul make-checkpoint "$slice" --layers 4 --experts 16 --vocab 32768 >&2
fi
exec build/release/streaming_speed "$slice" "$@"
