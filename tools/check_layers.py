#!/usr/bin/env python3
"""Fails when a file under src/ or apps/ includes a module that docs/layers.txt does not allow it."""
import pathlib
import re
import sys


def read_table(path):
    """-> module -> set of modules and single headers it may include."""
    table = {}
    for line in path.read_text().splitlines():
        module, _, rest = line.partition(":")
        table[module.strip()] = set(rest.split())
    return table


def violations(root, table):
    for file in sorted([*(root / "src").rglob("*"), *(root / "apps").rglob("*")]):
        if file.suffix not in {".h", ".cc"}:
            continue
        parts = file.relative_to(root).parts
        module = parts[1] if parts[0] == "src" else "apps"
        if module not in table:
            yield f"{file}: module '{module}' is not in docs/layers.txt"
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not match:
                continue
            path = match[1]
            target = path.split("/")[0]
            if target not in table and module != "apps":
                yield f"{file}:{number}: \"{path}\" is not rooted at src/"
            elif target != module and target not in table[module] and path not in table[module]:
                if not (module == "apps" and "/" not in path):
                    yield f"{file}:{number}: {module} may not include {path}"


def cycles(table):
    """The table itself must be a ladder: no module may reach itself."""
    def reach(module, seen):
        for entry in table.get(module, ()):
            target = entry.split("/")[0]
            if target not in seen:
                seen.add(target)
                reach(target, seen)
        return seen
    for module in table:
        if module in reach(module, set()):
            yield f"docs/layers.txt: {module} can reach itself"


def main(root):
    table = read_table(root / "docs/layers.txt")
    found = list(violations(root, table)) + list(cycles(table))
    print("\n".join(found) or "layers: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
