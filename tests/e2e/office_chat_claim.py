"""Claim office_chat: an office asks about memos, all at once, and nobody reads a shared token twice.

    python3 tests/e2e/office_chat_claim.py YEOUL [--requests N]

16 clients talk to the real server. Every conversation has the office's system prompt, a memo of its
own and up to four questions about it, the answers read back as a client sends them. A request fails
to reuse when it goes on from less than it shares with what was asked before: the system prompt,
or all of the conversation before the header of its last answer. Time to the first token is compared with
the tokens that stand in front of it (what requests that were sent before and answered after still had to
compute, its own included) at the rate that an idle server reads prompts with in the same run.
"""
import argparse
import concurrent.futures
import http.client
import json
import pathlib
import random
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(pathlib.Path(__file__).parent)]
from harness import Server  # noqa: E402
from tools.tiny_model import words  # noqa: E402

CLIENTS, QUESTIONS, ANSWER_TOKENS = 16, 4, 4
SYSTEM_WORDS, MEMO_WORDS = 1500, 900  # a word is one token, with the space before it
HEADER_TOKENS = 2  # assistant marker and </think>
GOAL = 1.15
WORDS = [*words.ITEMS, *words.SONGS, *words.ROOMS, *words.FACTS["en"]["food"]]


def text(seed, count):
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(count))


class Asked:
    """One request and what came of it."""

    def __init__(self, sent, first, usage, answer):
        self.sent, self.first, self.answer = sent, first, answer
        self.prompt = usage["prompt_tokens"]
        self.cached = usage["prompt_tokens_details"]["cached_tokens"]


def ask(port, messages):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    body = {"messages": messages, "thinking": {"type": "disabled"}, "temperature": 0, "stream": True,
            "max_tokens": ANSWER_TOKENS, "stream_options": {"include_usage": True}}
    sent = time.monotonic()
    connection.request("POST", "/v1/chat/completions", json.dumps(body))
    reply = connection.getresponse()
    if reply.status != 200:
        raise RuntimeError(f"{reply.status}: {reply.read()[:300]}")
    first, usage, answer = None, None, ""
    for line in reply:
        if not line.startswith(b"data: {"):
            continue
        chunk = json.loads(line[len(b"data: "):])
        if "error" in chunk:
            raise RuntimeError(f"error in the stream: {chunk['error']}")
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            piece = choice["delta"].get("content") or ""
            answer += piece
            if first is None and (piece or choice["finish_reason"]):
                first = time.monotonic()
    connection.close()
    return Asked(sent, first, usage, answer)


class Office:
    def __init__(self, server, requests):
        self.server, self.left = server, requests
        self.system = {"role": "system", "content": text("system", SYSTEM_WORDS)}
        self.lock = threading.Lock()
        self.asked, self.failures = [], []
        self.system_tokens = self.shared_tokens()

    def shared_tokens(self):
        """Tokens before the first word that two conversations differ in."""
        ids = [self.server.post("/tokenize", {"messages": [self.system, {"role": "user", "content": memo}],
                                              "thinking": {"type": "disabled"}})[1]["tokens"]
               for memo in ("kettle", "lamp")]
        return next(i for i, (a, b) in enumerate(zip(*ids)) if a != b)

    def rate(self):
        """Tokens a second of an idle server that reads memos behind a system prompt it knows: the median of nine."""
        system = {"role": "system", "content": text("another system", SYSTEM_WORDS)}
        rates = []
        for i in range(10):
            asked = ask(self.server.port, [system, {"role": "user", "content": text(f"alone {i}", MEMO_WORDS)}])
            rates.append((asked.prompt - asked.cached) / (asked.first - asked.sent))
        return statistics.median(rates[1:])

    def take(self):
        with self.lock:
            self.left -= 1
            return self.left >= 0

    def client(self, name):
        for memo in range(10**6):
            messages = [self.system]
            known = self.system_tokens - 1  # a state is kept before the user's marker
            for question in range(QUESTIONS):
                if not self.take():
                    return
                said = f"Question {question}: " + text(f"{name} {memo} {question}", 12)
                if question == 0:
                    said = text(f"{name} {memo}", MEMO_WORDS) + "\n" + said
                messages.append({"role": "user", "content": said})
                asked = ask(self.server.port, messages)
                with self.lock:
                    self.asked.append(asked)
                    if asked.cached < known:
                        self.failures.append((name, memo, question, asked.cached, known))
                known = asked.prompt - HEADER_TOKENS
                messages.append({"role": "assistant", "content": asked.answer})

    def run(self):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            for done in [pool.submit(self.client, name) for name in range(CLIENTS)]:
                done.result()

    def ratios(self, rate):
        """Of each request: time to the first token over that of the tokens in front of it."""
        for own in self.asked:
            ahead = sum(other.prompt - other.cached for other in self.asked
                        if other.sent <= own.sent and other.first > own.sent)
            yield (own.first - own.sent) / (ahead / rate)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--requests", type=int, default=1000)
    arguments = parser.parse_args()
    with Server("serve", "--port", 0, program=arguments.program) as server:
        office = Office(server, arguments.requests)
        rate = office.rate()
        office.run()
        ratio = statistics.median(office.ratios(rate))
    # The first prompt of all reads the system prompt; everybody else of the first moment waits for it.
    failures = len(office.failures) - (1 if office.failures and office.failures[0][1:3] == (0, 0) else 0)
    for failure in office.failures[:5]:
        print("client {}, memo {}, question {}: {} tokens reused of {}".format(*failure), file=sys.stderr)
    reused = sum(a.cached for a in office.asked) / sum(a.prompt for a in office.asked)
    print(json.dumps({
        "name": "office_chat", "value": failures,
        "unit": f"reuse failures in {len(office.asked)} requests of {CLIENTS} clients, {reused:.0%} of the prompt tokens "
                f"reused; time to the first token {ratio:.2f} x that of the tokens ahead in the median, "
                f"{rate:.0f} tokens/s alone",
        "goal": f"0, <= {GOAL}", "holds": failures == 0 and ratio <= GOAL}))


if __name__ == "__main__":
    main()
