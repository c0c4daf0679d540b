"""Text to compare tokenizers on, put together at test time from installed packages and a seed."""
import json
import pathlib
import random
import re

import python_packages

HANGUL = re.compile("[가-힣]")
HAN = re.compile("[一-龥]")
# Characters at the borders of the split patterns: every class, both line ends, rare white space,
# controls, combining marks, numbers of several scripts, and the ends of the CJK ranges.
TRICKY = ("aZé가힣ǅªʰ" "\u0301\u0308\u3099\u20dd\u0903" "07५Ⅷ½²一" "\u3007\u9fa5\u9fa6\u4dff\u303f\u3040ゟ゠ヿ\u3100"
          "!\"#'()*-./\\:;<=>?@[]^_`{|}~$+" "。，｜▁《€©\u00ad" " \t\r\n\x0b\x0c\x85\xa0\u2028\u3000\u200b\u180e"
          "\x00\x1f\x7f\ufeff\ue000\U000e0001\U0010ffff😀👩")


def packages():
    return next(python_packages.VENV.glob("lib/python3*/site-packages"))


def shuffled_lines(paths, seed):
    lines = [line for path in paths for line in path.read_text(errors="replace").splitlines(True)]
    random.Random(seed).shuffle(lines)
    return lines


def take(lines, size, pattern=None):
    """Documents of about 8 KB, `size` bytes in all; lines come again when they run out."""
    kept = [line for line in lines if pattern is None or pattern.search(line)]
    documents, document, length, total, at = [], [], 0, 0, 0
    while total < size:
        line = kept[at % len(kept)]
        at += 1
        document.append(line)
        length += len(line.encode())
        if length > 8192:
            documents.append("".join(document))
            total += length
            document, length = [], 0
    return documents


def phrases(vocabulary, pattern, size, seed):
    """Running text from the vocabulary's own words of one script, frequent ones more often."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(vocabulary))
    words = [tokenizer.decode([i]).strip() for i in range(3, 128000)]
    words = [w for w in words if pattern.search(w) and "\ufffd" not in w]
    rng = random.Random(seed)
    documents, total = [], 0
    while total < size:
        picks = [words[int(len(words) * rng.random() ** 2)] for _ in range(1500)]
        text = "".join(w + rng.choice(["", "", " ", " ", "은 ", "。", ", ", ".\n", "!"]) for w in picks)
        documents.append(text)
        total += len(text.encode())
    return documents


def random_text(size, seed, draw):
    rng = random.Random(seed)
    documents, total = [], 0
    while total < size:
        text = draw(rng)
        documents.append(text)
        total += len(text.encode())
    return documents


def draw_code_points(rng):
    points = [rng.choice([0x80, 0x800, 0x3000, 0x10000, 0x110000]) for _ in range(2000)]
    points = [rng.randrange(p) for p in points]
    return "".join(chr(p) for p in points if not 0xD800 <= p < 0xE000)


def draw_bytes(rng):
    return rng.randbytes(4096).decode(errors="replace")


def draw_tricky(rng):
    alphabet = rng.sample(TRICKY, rng.randrange(3, len(TRICKY)))
    return "".join(c * rng.choice([1, 1, 1, 2, 3, 7]) for c in rng.choices(alphabet, k=800))


def draw_markers(rng, spellings):
    """Text full of marker spellings, whole and cut."""
    parts = []
    for _ in range(400):
        spelling = rng.choice(spellings)
        parts.append(rng.choice([spelling, spelling, spelling[:rng.randrange(len(spelling))],
                                 spelling[rng.randrange(len(spelling)):], " ", "\n", "가나 ", "word",
                                 "<", "</", "｜"]))
    return "".join(parts)


def build(vocabulary, megabytes, seed):
    """[(kind, [document])]; the sizes add up to `megabytes` or a little more."""
    root = packages()
    share = megabytes * 1_000_000 // 20
    po = shuffled_lines(root.glob("django/**/*.po"), seed)
    code = shuffled_lines([*root.glob("django/**/*.js"), *root.glob("django/**/*.css")], seed)
    sources = [p.read_text(errors="replace") for p in root.glob("django/**/*.py")]
    random.Random(seed).shuffle(sources)
    korean = po + shuffled_lines(root.glob("faker/**/ko_KR/*.py"), seed)
    chinese = po + shuffled_lines([*root.glob("opencc/dictionary/*.txt"),
                                   *root.glob("pypinyin/*.json"),
                                   *root.glob("faker/**/zh_*/*.py")], seed)
    random.Random(seed).shuffle(chinese)
    spellings = [t["content"] for t in json.loads(pathlib.Path(vocabulary).read_text())["added_tokens"]]
    return [
        ("korean sentences", take(korean, share, HANGUL)),
        ("korean words", phrases(vocabulary, HANGUL, 3 * share, seed)),
        ("english and other languages", take(po, 4 * share)),
        ("chinese phrases", take(chinese, 2 * share, HAN)),
        ("chinese words", phrases(vocabulary, HAN, 2 * share, seed + 1)),
        ("code, line by line", take(code, share)),
        ("code, whole files", take(sources, 3 * share)),
        ("random code points", random_text(share, seed + 2, draw_code_points)),
        ("random bytes", random_text(share, seed + 3, draw_bytes)),
        ("borders of the patterns", random_text(2 * share, seed + 4, draw_tricky)),
        ("markers", random_text(share, seed + 5, lambda rng: draw_markers(rng, spellings))),
    ]
