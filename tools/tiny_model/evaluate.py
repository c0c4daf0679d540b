#!/usr/bin/env python3
"""Scores a checkpoint through the served API, greedily, on held-out documents.

    python3 -m tools.tiny_model.evaluate PROGRAM CHECKPOINT [--only REGEX] [--count N]

Starts `PROGRAM serve --model CHECKPOINT`, asks, prints one JSON line a claim (name, value, unit,
goal, holds). Standard library only. Exit code 1 when the server cannot be used; a goal that is
missed is a line with "holds": false.
"""
import argparse
import concurrent.futures
import json
import random
import re
import signal
import subprocess
import sys
import urllib.request

from tools.tiny_model import dialogues, recall, sums, tool_calls

PARALLEL = 8
HANGUL_TEXT = re.compile(r"[가-힣0-9\s.,!?:;~()\"'%-]+")


class Server:
    def __init__(self, program, checkpoint):
        self.process = subprocess.Popen([program, "serve", "--model", checkpoint, "--port", "0"],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = None
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.address = line.split()[-1]
                return
        raise RuntimeError(f"{program} serve --model {checkpoint} ended with {self.process.wait()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        self.process.stdout.close()

    def post(self, path, body):
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=600) as reply:
            return json.load(reply)

    def answer(self, conversation, asked, max_tokens=160):
        """The message that answers the first `asked` messages."""
        body = {"messages": [open_ai_message(m) for m in conversation["messages"][:asked]],
                "temperature": 0, "max_tokens": max_tokens}
        if conversation["effort"]:
            body["reasoning_effort"] = conversation["effort"]
        else:
            body["thinking"] = {"type": "disabled"}
        if "tools" in conversation:
            body["tools"] = [{"type": "function", "function": tool} for tool in conversation["tools"]]
        return self.post("/v1/chat/completions", body)["choices"][0]["message"]

    def count_tokens(self, conversation, asked):
        messages = [open_ai_message(m) for m in conversation["messages"][:asked]]
        return self.post("/tokenize", {"messages": messages, "thinking": {"type": "disabled"}})["count"]


def open_ai_message(message):
    out = {"role": message["role"], "content": "\n\n".join(message["content"])}
    if "tool_call_id" in message:
        out["tool_call_id"] = message["tool_call_id"]
    if "tool_calls" in message:
        out["tool_calls"] = [{"id": call["id"], "type": "function",
                              "function": {"name": call["name"], "arguments": call["arguments"]}}
                             for call in message["tool_calls"]]
    return out


def score(server, questions, is_right):
    """Share of questions whose answer is right. questions: [(conversation, asked, expected)]"""
    def one(question):
        conversation, asked, expected = question
        return is_right(server.answer(conversation, asked), expected)
    with concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        return sum(pool.map(one, questions)) / len(questions)


def says(message, expected):
    return (message["content"] or "").strip() == expected


def recall_questions(server, rng, distance, count):
    """The last fact of the notes stands at least `distance` tokens before the end of the question."""
    for _ in range(count):
        asked_for = distance
        while True:
            document, expected = recall.draw_distant(rng, "held", asked_for)
            talk = document.conversation
            asked = len(talk["messages"]) - 1
            behind = server.count_tokens(talk, asked) - server.count_tokens(talk, 1)
            if behind >= distance:
                yield talk, asked, expected
                break
            asked_for += max(20, distance - behind)


def recall_at(distance):
    def measure(server, rng, count):
        return score(server, list(recall_questions(server, rng, distance, count)), says)
    return measure


def tools(num_calls):
    def calls_of(message):
        calls = [(call["function"]["name"], call["function"]["arguments"]) for call in message.get("tool_calls") or []]
        try:
            return sorted((name, json.dumps(json.loads(arguments), sort_keys=True)) for name, arguments in calls)
        except ValueError:
            return None

    def measure(server, rng, count):
        questions = {}  # by what is asked: no question counts twice
        for _ in range(100 * count):
            talk = tool_calls.draw(rng, "held", num_calls).conversation
            expected = sorted((call["name"], json.dumps(json.loads(call["arguments"]), sort_keys=True))
                              for call in talk["messages"][1]["tool_calls"])
            questions[talk["messages"][0]["content"][0]] = (talk, 1, expected)
            if len(questions) == count:
                return score(server, list(questions.values()),
                             lambda message, expected: calls_of(message) == expected)
        raise RuntimeError(f"only {len(questions)} different questions for {num_calls} calls")
    return measure


def arithmetic(thinks):
    def measure(server, rng, count):
        questions = []
        for _ in range(count):
            talk = sums.draw_arithmetic(rng, "held", thinks).conversation
            expected = talk["messages"][1]["content"][0]
            questions.append(({**talk, "messages": talk["messages"][:2]}, 1, expected))
        return score(server, questions, says)
    return measure


def korean_faults(server, rng, count):
    """Replies that are empty, hold a broken character or letters of another script."""
    questions = []
    while len(questions) < count:
        talk = dialogues.draw_talk(rng, "held", "ko", 60).conversation
        first = next(i for i, m in enumerate(talk["messages"]) if m["role"] == "user")
        questions.append((talk, first + 1, None))
    clean = score(server, questions, lambda message, _: bool(HANGUL_TEXT.fullmatch(message["content"] or "")))
    return round((1 - clean) * count)


# name -> (measure, questions, unit, goal; None: reported only)
CLAIMS = {
    "tiny_recall_250": (recall_at(250), 100, "share right", 0.90),
    "tiny_recall_500": (recall_at(500), 100, "share right", 0.75),
    "tiny_recall_1000": (recall_at(1000), 50, "share right", None),
    "tiny_recall_2000": (recall_at(2000), 50, "share right", None),
    "tiny_tools": (tools(1), 200, "share right", 0.95),
    "tiny_tools_parallel": (tools(2), 200, "share right", 0.85),
    "tiny_arithmetic": (arithmetic(True), 200, "share right", 0.85),
    "tiny_arithmetic_plain": (arithmetic(False), 200, "share right", None),
    "tiny_korean": (korean_faults, 200, "faulty replies", 0),
}


def row_of(name, value, count, unit, goal):
    faults = unit == "faulty replies"
    holds = goal is None or (value <= goal if faults else value >= goal)
    return {"name": name, "value": round(value, 4), "unit": f"{unit} of {count}",
            "goal": "reported" if goal is None else f"{'<=' if faults else '>='} {goal}", "holds": holds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("checkpoint")
    parser.add_argument("--only", default="", help="regular expression of claim names")
    parser.add_argument("--count", type=int, help="questions a claim (default: the claim's own)")
    arguments = parser.parse_args()
    try:
        with Server(arguments.program, arguments.checkpoint) as server:
            for name, (measure, count, unit, goal) in CLAIMS.items():
                if re.search(arguments.only, name):
                    count = arguments.count or count
                    value = measure(server, random.Random(f"evaluate {name}"), count)
                    print(json.dumps(row_of(name, value, count, unit, goal)), flush=True)
    except (OSError, RuntimeError) as error:
        sys.exit(f"evaluate: {error}")


if __name__ == "__main__":
    main()
