#!/usr/bin/env python3
"""Builds and runs every fuzz target of the fuzz preset, each for --seconds, two at a time.

New inputs are kept under build/fuzz/found/TARGET and are the start of the next run; an input that
breaks a target is left in build/fuzz as TARGET-crash-*. Exit code 1 when any target failed.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

BUILD = pathlib.Path("build/fuzz")


def targets():
    """-> {name: (program, corpus folder)} as ctest lists them."""
    listing = subprocess.run(
        ["ctest", "--test-dir", BUILD, "-L", "^fuzz$", "--show-only=json-v1"],
        check=True, capture_output=True, text=True).stdout
    return {test["name"]: (test["command"][0], test["command"][1])
            for test in json.loads(listing)["tests"] if test.get("command")}


def run(name, program, corpus, seconds):
    found = BUILD / "found" / name
    found.mkdir(parents=True, exist_ok=True)
    log = BUILD / f"{name}.log"
    with log.open("w") as output:
        code = subprocess.run(
            [program, found, corpus, f"-max_total_time={seconds}", "-timeout=20",
             "-rss_limit_mb=4096", f"-artifact_prefix={BUILD}/{name}-"],
            stdout=output, stderr=output).returncode
    lines = log.read_text(errors="replace").splitlines()
    closing = next((line for line in reversed(lines) if line.startswith("Done ")), "")
    print(f"{name}: {'ok' if code == 0 else f'FAILED, see {log}'} {closing}", flush=True)
    return code == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=180, help="for each target")
    options = parser.parse_args()
    subprocess.run(["cmake", "--preset", "fuzz"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", BUILD, "--target", "fuzzers"], check=True)
    found = targets()
    if not found:
        print("run_fuzzers: no fuzz target", file=sys.stderr)
        return 1
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        runs = [pool.submit(run, name, *paths, options.seconds) for name, paths in found.items()]
    return 0 if all(run.result() for run in runs) else 1


if __name__ == "__main__":
    sys.exit(main())
