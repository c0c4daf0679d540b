"""Arithmetic of a small range, with the steps written out in the reasoning or without; copying and
counting."""
from tools.tiny_model.document import Document, choose, conversation, message

ASK = {"en": ["What is {}?", "{} = ?", "Compute {}."], "ko": ["{}은 얼마야?", "{} = ?", "{} 계산해 줘."]}


def addition_steps(a, b):
    """Column by column from the right, every carry said."""
    steps, carry = [], 0
    for place in range(max(len(str(a)), len(str(b)))):
        x, y = a // 10**place % 10, b // 10**place % 10
        total = x + y + carry
        carried = f" + {carry}" if carry else ""
        carry = total // 10
        steps.append(f"{x} + {y}{carried} = {total}: {total % 10}" + (", carry 1" if carry else ""))
    if carry:
        steps.append("1")
    return steps


def subtraction_steps(a, b):
    steps, borrow = [], 0
    for place in range(len(str(a))):
        x, y = a // 10**place % 10 - borrow, b // 10**place % 10
        borrow = 1 if x < y else 0
        steps.append(f"{x + 10 * borrow} - {y} = {x + 10 * borrow - y}" + (", borrow 1" if borrow else ""))
    return steps


def multiplication_steps(a, b):
    """The row of the table up to the product, each line behind how many are still to come: a single line could only be
    known by heart, and so could the place to stop; one product in ten is held out."""
    return [f"{b - i}: {a} * {i + 1} = {a * (i + 1)}" for i in range(b)]


def draw_sum(rng, split):
    """-> (a, operator, b, result, steps)"""
    def combination():
        operator = rng.choice("++--*" if split == "held" else "+-**")  # products take the most learning
        if operator == "*":
            return rng.randint(2, 9), "*", rng.randint(2, 9)
        a, b = rng.randint(1, 99), rng.randint(1, 99)
        return (max(a, b), "-", min(a, b)) if operator == "-" else (a, "+", b)
    a, operator, b = choose(rng, split, combination)
    if operator == "+":
        return a, operator, b, a + b, addition_steps(a, b)
    if operator == "-":
        return a, operator, b, a - b, subtraction_steps(a, b)
    return a, operator, b, a * b, multiplication_steps(a, b)


def draw_arithmetic(rng, split, thinks):
    language = rng.choice(["en", "ko"])
    messages = []
    for _ in range(1 if thinks else rng.randint(1, 3)):
        a, operator, b, result, steps = draw_sum(rng, split)
        answer = message("assistant", str(result))
        if thinks:
            answer["reasoning"] = "\n".join(steps)
        messages += [message("user", rng.choice(ASK[language]).format(f"{a} {operator} {b}")), answer]
    kind = "arithmetic_think" if thinks else "arithmetic_plain"
    return Document(kind, conversation(messages, effort=rng.choice([50, 75, 100]) if thinks else 0),
                    tuple("0123456789"))


def draw_copy(rng, split, vocabulary):
    def combination():
        return tuple(rng.choice(vocabulary) for _ in range(rng.randint(3, 10)))
    text = " ".join(choose(rng, split, combination))
    ask = rng.choice(["Repeat: {}", "Say this again: {}", "따라 말해: {}"])
    return Document("copy", conversation([message("user", ask.format(text)), message("assistant", text)]))


def draw_count(rng, split):
    def combination():
        return rng.randint(0, 60), rng.choice([1, 1, 1, 2, 5, 10]), rng.randint(4, 12)
    start, step, length = choose(rng, split, combination)
    numbers = [str(start + i * step) for i in range(length)]
    by = "" if step == 1 else f" by {step}"
    ask = f"Count from {numbers[0]} to {numbers[-1]}{by}." if rng.random() < 0.6 else (
        f"{numbers[0]}부터 {numbers[-1]}까지 " + ("" if step == 1 else f"{step}씩 ") + "세어 줘.")
    return Document("count", conversation([message("user", ask), message("assistant", " ".join(numbers))]))
