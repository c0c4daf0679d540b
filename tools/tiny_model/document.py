"""One training document and the rule that keeps the held-out ones apart."""
import dataclasses
import hashlib


@dataclasses.dataclass
class Document:
    kind: str            # one of generate.KINDS
    conversation: dict   # the form that tests/property/text/text_chat.cc reads
    values: tuple = ()   # words of answers that carry the point: recalled values, digits of sums


def is_held_out(*combination):
    """One combination in ten is never trained on. Words recur, combinations do not."""
    return hashlib.sha256(repr(combination).encode()).digest()[0] % 10 == 0


def choose(rng, split, draw):
    """Draws combinations until one belongs to `split` ("train" or "held"); draw() -> tuple."""
    for _ in range(10000):
        combination = draw()
        if is_held_out(*combination) == (split == "held"):
            return combination
    raise ValueError(f"no combination for {split} like {combination}: too few to choose from")


def message(role, text="", **more):
    return {"role": role, "content": [text], **more}


def conversation(messages, effort=0, **more):
    """effort 0: without thinking; 1 to 100 otherwise."""
    return {"messages": messages, "effort": effort, **more}
