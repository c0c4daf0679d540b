"""The C++ sources a check looks at, and their text without comments and literals."""
import re

FOLDERS = ("src", "apps", "tests")
SUFFIXES = {".h", ".cc"}


def cpp_files(root, folders=FOLDERS):
    """-> sorted paths of the .h and .cc files under these folders of root."""
    return sorted(file for folder in folders for file in (root / folder).rglob("*")
                  if file.suffix in SUFFIXES)


def includes(text):
    """-> [(line number, path)] of the quoted includes."""
    return [(number, match[1]) for number, line in enumerate(text.splitlines(), 1)
            if (match := re.match(r'\s*#\s*include\s*"([^"]+)"', line))]


_LITERALS = re.compile(
    r'//[^\n]*'
    r'|/\*.*?\*/'
    r'|R"(?P<tag>[^()\s\\]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])*'", re.DOTALL)


def blank_literals(text):
    """text with comments, strings and character literals blanked; line breaks stay in place."""
    return _LITERALS.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
