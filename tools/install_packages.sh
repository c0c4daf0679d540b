#!/usr/bin/env bash
# install_packages.sh GROUP...: installs what is missing of those groups of tools/packages.txt.
# Does nothing when all is there; needs root or sudo otherwise.
set -euo pipefail
list="$(dirname "$0")/packages.txt"

wanted=()
while read -r group package; do
  for chosen in "$@"; do
    [ "$group" = "$chosen" ] && wanted+=("$package")
  done
done < <(grep -v '^#' "$list")
[ ${#wanted[@]} -gt 0 ] || { echo "install_packages: no package in group: $*" >&2; exit 2; }

if ! command -v dpkg-query >/dev/null; then
  echo "install_packages: not a Debian system; install by hand: ${wanted[*]}" >&2
  exit 0
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "install_packages: neither root nor sudo; please install: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "install_packages: ${missing[*]}"
"${as_root[@]}" apt-get update -qq </dev/null
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null
