#!/usr/bin/env python3
"""Runs the measurable promises of the project and prints one JSON line for each.

tests/claims.d/*.json list them: [{"names": ["a", "b"], "command": ["build/release/x", "--claims"],
"needs": "vocabulary"}]. "name" stands for a single one; "needs" is optional. A command runs in the
repository root ("python3" is this interpreter) and prints, among other lines, one JSON object for
each of its names with the keys name, value, unit, goal and holds. Exit code 1 when a row is
missing, malformed, undeclared or does not hold, or when a command fails.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

KEYS = ("name", "value", "unit", "goal", "holds")
# What an entry may need -> the command that provides it.
NEEDS = {"vocabulary": [sys.executable, "tools/text/fetch_vocabulary.py"]}


def read_entries(folder):
    """-> entries of all files, each with "names"; ValueError names the file and what is wrong."""
    entries = []
    seen = {}
    for file in sorted(folder.glob("*.json")):
        for entry in json.loads(file.read_text()):
            names = entry.get("names") or [entry.get("name")]
            if not entry.get("command") or not all(isinstance(name, str) for name in names):
                raise ValueError(f"{file}: an entry needs \"name\" or \"names\", and \"command\"")
            if entry.get("needs") not in (None, *NEEDS):
                raise ValueError(f"{file}: unknown need \"{entry['needs']}\"")
            for name in names:
                if name in seen:
                    raise ValueError(f"{file}: \"{name}\" is also in {seen[name]}")
                seen[name] = file
            entries.append({"names": names, "command": entry["command"],
                            "needs": entry.get("needs")})
    return entries


def read_rows(output):
    """-> [(row, complaint or None)] of the JSON objects among the lines of a command's output."""
    for line in output.splitlines():
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            yield {}, f"not JSON ({error}): {line[:100]}"
            continue
        missing = [key for key in KEYS if key not in row]
        if missing:
            yield row, f"without {', '.join(missing)}: {line[:100]}"
        elif not isinstance(row["holds"], bool):
            yield row, f"\"holds\" must be true or false: {line[:100]}"
        else:
            yield row, None


def run_entry(entry, root, wanted):
    """Prints the wanted rows of one command. -> complaints."""
    words = " ".join(entry["command"])
    command = [sys.executable if word == "python3" else word for word in entry["command"]]
    done = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True)
    complaints = []
    if done.returncode != 0:
        complaints.append(f"{words}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    found = set()
    for row, complaint in read_rows(done.stdout):
        name = row.get("name")
        if complaint:
            complaints.append(f"{words}: {complaint}")
        elif name not in entry["names"]:
            complaints.append(f"{words}: undeclared row \"{name}\"")
        elif wanted(name):
            print(json.dumps({key: row[key] for key in KEYS}, ensure_ascii=False), flush=True)
            if not row["holds"]:
                complaints.append(f"{name}: does not hold: {row['value']} {row['unit']}, "
                                  f"goal {row['goal']}")
        found.add(name)
    complaints += [f"{name}: no row from {words}" for name in entry["names"]
                   if wanted(name) and name not in found]
    return complaints


def run_all(root, only):
    entries = [entry for entry in read_entries(root / "tests/claims.d")
               if any(re.search(only, name) for name in entry["names"])]
    if not entries:
        return [f"no claim matches \"{only}\""]
    complaints = []
    for need in sorted({entry["needs"] for entry in entries} - {None}):
        done = subprocess.run(NEEDS[need], cwd=root, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True)
        if done.returncode != 0:
            complaints.append(f"{need}: cannot be had\n{done.stdout}{done.stderr}")
    for entry in entries:
        complaints += run_entry(entry, root, lambda name: re.search(only, name) is not None)
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression on the names")
    parser.add_argument("--root", default=".", type=pathlib.Path)
    options = parser.parse_args()
    try:
        complaints = run_all(options.root, options.only)
    except (ValueError, OSError) as error:
        complaints = [str(error)]
    for complaint in complaints:
        print(f"claims: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
