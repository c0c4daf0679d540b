#!/usr/bin/env bash
# aarch64_sysroot.sh [FOLDER]: unpacks the arm64 libraries of tools/packages.txt (group arm64) into
# FOLDER, default build/aarch64-sysroot, for cmake/aarch64.cmake. Uses an apt state of its own: the
# machine's architectures and packages stay as they are, and no root is needed.
set -euo pipefail
cd "$(dirname "$0")/.."
sysroot=$(realpath -m "${1:-build/aarch64-sysroot}")
mapfile -t packages < <(awk '$1 == "arm64" { print $2 }' tools/packages.txt)

wanted=$(printf '%s\n' "${packages[@]}" | sha256sum)
[ "$(cat "$sysroot/.packages" 2>/dev/null)" != "$wanted" ] || exit 0

rm -rf "$sysroot"
mkdir -p "$sysroot/apt/lists/partial" "$sysroot/apt/debs"
: >"$sysroot/apt/status"
options=(-qq -o APT::Architecture=arm64 -o APT::Architectures=arm64
  -o "Dir::State::lists=$sysroot/apt/lists" -o "Dir::State::status=$sysroot/apt/status"
  -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache="
  -o Acquire::Languages=none -o APT::Sandbox::User=)
# Only the release's own archive: other sources of a machine need not carry arm64.
for sources in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
  [ -s "$sources" ] && break
done
apt-get "${options[@]}" -o "Dir::Etc::sourcelist=$sources" -o Dir::Etc::sourceparts=/dev/null update
(cd "$sysroot/apt/debs" &&
  apt-get "${options[@]}" -o "Dir::Etc::sourcelist=$sources" -o Dir::Etc::sourceparts=/dev/null \
    download "${packages[@]}")
for deb in "$sysroot"/apt/debs/*.deb; do
  dpkg-deb --extract "$deb" "$sysroot"
done
rm -rf "$sysroot/apt"
echo "$wanted" >"$sysroot/.packages"
