#!/usr/bin/env python3
"""Fails when a file of src/ or apps/ includes a module that docs/layers.txt does not allow it.

Also when that table has a cycle, or when CMakeLists.txt links other modules than the table says.
"""
import pathlib
import re
import sys

from source_files import cpp_files, includes


def read_table(path):
    """-> module -> set of modules and single headers it may include."""
    table = {}
    for line in path.read_text().splitlines():
        module, _, rest = line.partition(":")
        table[module.strip()] = set(rest.split())
    return table


def violations(root, table):
    for file in cpp_files(root, ("src", "apps")):
        parts = file.relative_to(root).parts
        module = parts[1] if parts[0] == "src" else "apps"
        if module not in table:
            yield f"{file}: module '{module}' is not in docs/layers.txt"
            continue
        for number, path in includes(file.read_text()):
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


def cmake_differences(root, table):
    """yeoul_module(NAME DEPS ...) must list the modules of the table."""
    declared = {}
    for name, rest in re.findall(r"^yeoul_module\((\w+)([^)]*)\)",
                                 (root / "CMakeLists.txt").read_text(), re.MULTILINE):
        dependencies = re.search(r"DEPS((?: +[a-z]\w*)*)", rest)
        declared[name] = set(dependencies[1].split()) if dependencies else set()
    for module in sorted(set(table) - {"apps"}):
        wanted = {entry.split("/")[0] for entry in table[module]}
        if declared.get(module) != wanted:
            yield f"CMakeLists.txt: yeoul_module({module}) has DEPS " \
                  f"{sorted(declared.get(module, []))}, docs/layers.txt says {sorted(wanted)}"


def main(root):
    table = read_table(root / "docs/layers.txt")
    found = [*violations(root, table), *cycles(table), *cmake_differences(root, table)]
    print("\n".join(found) or "layers: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
