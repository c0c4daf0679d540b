"""Seeded random conversations, in the form that tests/property/text/text_chat.cc reads."""
import json
import random

WORDS = ["hello", "여울", "你好", "the quick brown fox", "12345", "<think>", "</think>", "｜DSML｜",
         "<｜User｜>", "<｜end▁of▁sentence｜>", "</tool_result>", "\n", "\n\n", "  ", "\"quoted\"",
         "\\", "é\u0301", "👩‍💻", "{\"a\": 1}", "</｜DSML｜ parameter>", "\t", "\x7f", "۳", "."]
NAMES = ["get_weather", "f", "namespace::search", "도구", "with space"]
TASKS = ["action", "query", "authority", "domain", "title", "read_url"]


def text(rng):
    return "".join(rng.choice(WORDS) for _ in range(rng.choice([0, 1, 1, 2, 5])))


def parts(rng):
    return [text(rng) for _ in range(rng.choice([1, 1, 1, 2, 0]))]


def number(rng):
    return rng.choice([0, -1, 1.0, 2.5, 1e15, 1e16, 1e-5, 123456789012, 0.1, -0.0, 1e300,
                       rng.random(), rng.randrange(-10**18, 10**18), rng.uniform(-1e20, 1e20)])


def value(rng, depth=0):
    kind = rng.randrange(7 if depth < 3 else 5)
    if kind == 5:
        return [value(rng, depth + 1) for _ in range(rng.randrange(3))]
    if kind == 6:
        return {text(rng): value(rng, depth + 1) for _ in range(rng.randrange(3))}
    return [None, True, False, number(rng), text(rng)][kind]


def tool(rng):
    return {"name": rng.choice(NAMES), "description": text(rng),
            "parameters": {"type": "object", "properties": value(rng, 2)}}


def arguments(rng):
    if rng.random() < 0.1:
        return rng.choice(["", "not json", "[1, 2]", "null", "7", "{\"a\": 1", "{} x"])
    # Keys are attribute values and may not hold what would end them.
    return json.dumps({f"k{i}{rng.choice(['', '한', ' x'])}": value(rng)
                       for i in range(rng.choice([0, 1, 2, 3]))},
                      ensure_ascii=rng.random() < 0.3,
                      separators=rng.choice([(",", ":"), (", ", ": ")]))


def answer(rng, calls):
    message = {"role": "assistant", "content": parts(rng)}
    if rng.random() < 0.6:
        message["reasoning"] = text(rng)
    if calls:
        message["tool_calls"] = [{"id": i, "name": rng.choice(NAMES), "arguments": arguments(rng)}
                                 for i in calls]
    return message


def system(rng, role="system"):
    return {"role": role, "content": parts(rng)}


def results(rng, calls):
    """Results in any order, sometimes with words between them or with an unknown id."""
    out = []
    for call in rng.sample(calls, len(calls)):
        known = call if rng.random() < 0.95 else "unknown"
        out.append({"role": "tool", "tool_call_id": known, "content": parts(rng)})
        if rng.random() < 0.1:
            out.append({"role": "user", "content": parts(rng)})
    return out


def conversation(rng, extended):
    """`extended`: also what only the release's encoder knows, not its independent implementation."""
    messages = []
    if rng.random() < 0.5:
        messages.append(system(rng))
    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        messages.append({"role": "user", "content": parts(rng)})
        if rng.random() < 0.1:
            messages.append({"role": "user", "content": parts(rng)})
        if extended and rng.random() < 0.2:
            messages.append({"role": "latest_reminder", "content": [text(rng)]})
        calls = [f"call{len(messages)}_{i}" for i in range(rng.choice([0, 0, 0, 1, 2, 3]))]
        messages.append(answer(rng, calls))
        messages += results(rng, calls)
        if calls and rng.random() < 0.7:
            messages.append(answer(rng, []))
        if rng.random() < 0.15:
            later = system(rng, "developer" if extended and rng.random() < 0.3 else "system")
            if extended and rng.random() < 0.3:
                later["tools"] = [tool(rng)]
            if extended and rng.random() < 0.2:
                later["response_format"] = value(rng, 2) or {}
            messages += [later, answer(rng, [])]
    shape = rng.random()
    if shape < 0.7 or messages[-1]["role"] != "assistant":
        messages.append({"role": "user", "content": parts(rng)})
    elif shape < 0.9 and "tool_calls" not in messages[-1]:
        messages[-1]["continues"] = True
    out = {"messages": messages, "effort": rng.choice([0, 50, 75, 100])}
    if extended:
        out["effort"] = rng.choice([0, 50, 75, 100, rng.randrange(1, 101)])
        out["drop_old_reasoning"] = rng.random() < 0.8
        if rng.random() < 0.2 and messages[-1]["role"] == "user":
            messages[-1]["task"] = rng.choice(TASKS)
    if rng.random() < 0.4:
        out["tools"] = [tool(rng) for _ in range(rng.choice([1, 2, 3]))]
        if not extended:
            out["tool_choice"] = rng.choice(["auto", "auto", "none", "required"])
        if out.get("tool_choice") == "required" and messages[-1].get("continues"):
            del out["tool_choice"]
    if rng.random() < 0.2:
        out["response_format"] = {"type": "object", "properties": value(rng, 2)}
    return out


def many(count, seed, extended):
    rng = random.Random(seed)
    return [conversation(rng, extended) for _ in range(count)]
