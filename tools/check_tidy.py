#!/usr/bin/env python3
"""Fails on what the style of this project forbids and a script can see.

Rules, with the word that names each in a finding:
  columns          a line has at most 100 columns
  file-length      a file has at most 800 lines (over 400: a warning only)
  function-length  a function has at most 70 lines, unless the comment above it says
                   "tidy: long-function" and why
  name             no folder, file or type is called util, helper, misc, common or manager
  getenv           the environment is read in apps/ only
  debt             no to-do markers
  pragma-once      every header starts with #pragma once
  own-header       X.cc and X_test.cc include X.h first, which proves that X.h stands alone
  unused-header    every header under src/ is included by more than its own .cc and test
  stale-page       docs/architecture.md names every module, and only files that exist

With --compile-headers COMPILER every header that has no X.cc and no X_test.cc is compiled alone.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

from source_files import FOLDERS, blank_literals, cpp_files, includes

COLUMNS_MAX = 100
FILE_LINES_MAX = 800
FILE_LINES_WARN = 400
FUNCTION_LINES_MAX = 70
BANNED_NAMES = {"util", "utils", "helper", "helpers", "misc", "common", "manager", "managers"}
DEBT = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
SCOPE = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b(?!.*\))", re.DOTALL)
CONTROL = re.compile(r"^\s*(if|for|while|switch|do|else|try|catch)\b")


def text_files(root):
    """Everything written by hand whose lines are counted: C++, Python and shell."""
    scripts = [file for file in (root / "tools").glob("*") if file.suffix in {".py", ".sh"}]
    return [*cpp_files(root), *sorted(scripts)]


def check_lines(root):
    for file in text_files(root):
        lines = file.read_text().splitlines()
        for number, line in enumerate(lines, 1):
            if len(line) > COLUMNS_MAX:
                yield f"{file}:{number}: columns: {len(line)}, at most {COLUMNS_MAX}"
            if match := DEBT.search(line):
                yield f"{file}:{number}: debt: {match[0]}; open an issue instead"
        if len(lines) > FILE_LINES_MAX:
            yield f"{file}: file-length: {len(lines)} lines, at most {FILE_LINES_MAX}"


def long_files(root):
    for file in text_files(root):
        length = len(file.read_text().splitlines())
        if FILE_LINES_WARN < length <= FILE_LINES_MAX:
            yield f"{file}: {length} lines; consider a second noun"


def functions(code):
    """-> (first line, last line, header) of each outermost function body, by matching braces.

    `code` has its literals blanked. A brace opens a function when it stands in a namespace or class
    and the text before it has a parameter list.
    """
    scopes = []  # True: inside a namespace or type, False: inside a function or initialiser
    opened = None
    head_start = 0
    for match in re.finditer(r"[{};]|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", code, re.MULTILINE):
        at = match.start()
        token = match[0]
        if token == "{":
            head = re.sub(r"\balignas\([^)]*\)", "", code[head_start:at])
            in_scope = all(scopes)
            is_function = in_scope and ")" in head and not SCOPE.search(head) \
                and not CONTROL.match(head)
            if is_function and opened is None:
                opened = (len(scopes), head_start + len(head) - len(head.lstrip()), head.strip())
            scopes.append(in_scope and not is_function and bool(SCOPE.search(head)))
        elif token == "}" and scopes:
            scopes.pop()
            if opened and opened[0] == len(scopes):
                yield (code.count("\n", 0, opened[1]) + 1, code.count("\n", 0, at) + 1, opened[2])
                opened = None
        head_start = match.end()


def check_functions(root):
    for file in cpp_files(root):
        text = file.read_text()
        lines = text.splitlines()
        for first, last, head in functions(blank_literals(text)):
            length = last - first + 1
            if length <= FUNCTION_LINES_MAX or is_excused(lines, first):
                continue
            name = re.sub(r"\s+", " ", head)[:60]
            yield f"{file}:{first}: function-length: {length} lines, at most " \
                  f"{FUNCTION_LINES_MAX}: {name}"


def is_excused(lines, first):
    """The comment block that ends right above line `first` says why the function is long."""
    number = first - 2
    while number >= 0 and lines[number].lstrip().startswith("//"):
        if re.search(r"tidy: long-function \S+", lines[number]):
            return True
        number -= 1
    return False


def words_of(name):
    """snake_case or PascalCase -> lower-case words."""
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)]


def check_names(root):
    for folder in (*FOLDERS, "tools"):
        for path in sorted((root / folder).rglob("*")):
            if "__pycache__" not in path.parts and BANNED_NAMES & set(words_of(path.stem)):
                yield f"{path}: name: says nothing about what it holds"
    for file in cpp_files(root):
        code = blank_literals(file.read_text())
        for match in re.finditer(r"\b(?:class|struct|enum(?: class)?|using|concept)\s+(\w+)", code):
            if BANNED_NAMES & set(words_of(match[1])):
                number = code.count("\n", 0, match.start()) + 1
                yield f"{file}:{number}: name: {match[1]} says nothing about what it is"


def check_environment(root):
    for file in cpp_files(root, ("src", "tests")):
        for number, line in enumerate(blank_literals(file.read_text()).splitlines(), 1):
            if re.search(r"\b(secure_)?getenv\s*\(", line):
                yield f"{file}:{number}: getenv: options come in through apps/"


def is_own(header, file):
    """Whether file is the .cc or the test of header."""
    return file.parent == header.parent and file.suffix == ".cc" \
        and file.stem in {header.stem, f"{header.stem}_test"}


def check_headers(root):
    included_by = {}
    for file in cpp_files(root):
        text = file.read_text()
        quoted = [path for _, path in includes(text)]
        for path in quoted:
            included_by.setdefault(path, set()).add(file)
        if file.suffix == ".h" and "#pragma once" not in blank_literals(text).splitlines():
            yield f"{file}: pragma-once: missing"
        own = file.with_name(re.sub(r"(_test)?\.cc$", ".h", file.name))
        if file.suffix == ".cc" and file.parent.is_relative_to(root / "src") and own.exists():
            expected = own.relative_to(root / "src").as_posix()
            if quoted[:1] != [expected]:
                yield f"{file}: own-header: \"{expected}\" must be its first include"
    for header in cpp_files(root, ("src",)):
        if header.suffix != ".h":
            continue
        users = included_by.get(header.relative_to(root / "src").as_posix(), set())
        if all(is_own(header, user) for user in users):
            yield f"{header}: unused-header: nothing but its own .cc and test includes it"


def exists_in_source(root, name):
    """name as the architecture page writes it: a file, a folder, or a stem of .h and .cc."""
    return any((base / (name + suffix)).exists() for base in (root / "src", root)
               for suffix in ("", ".h", ".cc"))


def check_architecture(root):
    page = root / "docs/architecture.md"
    text = page.read_text() if page.exists() else ""
    for folder in sorted(path for path in (root / "src").glob("*") if path.is_dir()):
        if not re.search(rf"^\| {folder.name} \|", text, re.MULTILINE):
            yield f"{page}: stale-page: module {folder.name} is not in its table"
    table = text.partition("## Responsibility")[2].partition("\n## ")[0]
    for row in table.splitlines():
        folder = ""
        for name in re.findall(r"`([\w./]+)`", row.partition(" | ")[2]):
            folder = name.rpartition("/")[0] or folder
            if not exists_in_source(root, name if "/" in name else f"{folder}/{name}"):
                yield f"{page}: stale-page: {name} does not exist"


def lone_headers(root):
    """Headers that no file of their own compiles first."""
    return [header for header in cpp_files(root, ("src",)) if header.suffix == ".h"
            and not header.with_suffix(".cc").exists()
            and not header.with_name(header.stem + "_test.cc").exists()]


def compile_headers(root, compiler):
    def compile_one(header):
        done = subprocess.run(
            [compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-I", root / "src",
             "-include", header, "-x", "c++", os.devnull], capture_output=True, text=True)
        return None if done.returncode == 0 else f"{header}: does not compile alone:\n{done.stderr}"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from filter(None, pool.map(compile_one, lone_headers(root)))


def violations(root):
    for check in (check_lines, check_functions, check_names, check_environment, check_headers,
                  check_architecture):
        yield from check(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", default=".", type=pathlib.Path)
    parser.add_argument("--compile-headers", metavar="COMPILER")
    options = parser.parse_args()
    if options.compile_headers:
        found = list(compile_headers(options.root, options.compile_headers))
    else:
        found = list(violations(options.root))
        for warning in long_files(options.root):
            print(f"warning: {warning}")
    print("\n".join(found) or "tidy: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
