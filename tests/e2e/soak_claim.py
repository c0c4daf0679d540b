"""Claim soak: hours of mixed load leave the server as it was.

    python3 tests/e2e/soak_claim.py YEOUL [--minutes 10] [--seed N]

Clients ask, stream, leave in the middle, send half a request, send nonsense, ask for choices, share
prompts and salts. The context is short and pages few, so that pages and states are reused all the time.
Fails when the resident memory of the last tenth is more than 1 % above that of the first steady tenth
(the third), when a page is held by nobody that the server knows, or when a well-formed request goes
wrong.
"""
import argparse
import collections
import json
import pathlib
import random
import statistics
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(pathlib.Path(__file__).parent)]
from harness import Server, chat, raw_request  # noqa: E402
from tools.tiny_model import words  # noqa: E402

CLIENTS = 10
OPTIONS = ("--context", 4096)  # of the embedded checkpoint: 256 pages, 80 states
GROWTH_MAX = 0.01
WORDS = [*words.ITEMS, *words.SONGS, *words.ROOMS]


class Client:
    def __init__(self, server, seed, until, counts):
        self.server, self.rng, self.until, self.counts = server, random.Random(seed), until, counts
        self.faults = []

    def body(self):
        rng = self.rng
        length = int(2 ** rng.uniform(2, 10.5))  # words, one token each
        shared = random.Random(rng.randrange(8))  # one of eight beginnings
        text = " ".join(shared.choice(WORDS) for _ in range(length // 2)) + " "
        text += " ".join(rng.choice(WORDS) for _ in range(length - length // 2))
        body = chat(text, max_tokens=int(2 ** rng.uniform(0, 6)), seed=rng.randrange(1000),
                    temperature=rng.choice([0, 0, 1]))
        if rng.random() < 0.1:
            body["n"] = 3
        if rng.random() < 0.1:
            body["logprobs"], body["top_logprobs"] = True, 5
        return body

    def whole(self):
        status, reply = self.server.post("/v1/chat/completions", self.body(), timeout=300)
        if status != 200 or not all(choice["finish_reason"] for choice in reply["choices"]):
            self.faults.append(f"{status}: {str(reply)[:200]}")

    def streamed(self):
        status, events = self.server.stream("/v1/chat/completions", self.body(), timeout=300)
        if status != 200 or events[-1] != "[DONE]":
            self.faults.append(f"{status}: stream ends with {str(events[-1])[:200]}")

    def leaves(self):
        """After the first piece of the answer, or before any."""
        with self.server.connect() as connection:
            connection.sendall(raw_request({**self.body(), "stream": True}))
            if self.rng.random() < 0.5:
                connection.settimeout(300)
                connection.recv(1)
            else:
                time.sleep(self.rng.uniform(0, 0.3))

    def half(self):
        data = raw_request(self.body())
        with self.server.connect() as connection:
            connection.sendall(data[:self.rng.randrange(1, len(data))])

    def nonsense(self):
        body = self.rng.choice(["{", "[]", '{"messages":[]}', '{"messages":[{"role":"user"}]}',
                                json.dumps(chat("x", temperature="hot")), json.dumps(chat("x", max_tokens=-1))])
        status, _, text = self.server.request("POST", "/v1/chat/completions", body)
        if status != 400:
            self.faults.append(f"400 expected for {body}, found {status}: {text[:200]}")

    def looks(self):
        self.server.request("GET", self.rng.choice(["/metrics", "/debug/cache", "/v1/models"]))
        self.server.post("/tokenize", self.body())

    def go(self):
        acts = [self.whole, self.streamed, self.leaves, self.half, self.nonsense, self.looks]
        while time.monotonic() < self.until:
            act = self.rng.choices(acts, [30, 30, 25, 5, 5, 5])[0]
            try:
                act()
                self.counts[act.__name__] += 1
            except OSError as error:
                self.faults.append(f"{act.__name__}: {error!r}")


def resident_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"no VmRSS of process {pid}")


def soak(server, minutes, seed):
    """-> relative growth, requests by kind, faults."""
    begin, seconds = time.monotonic(), 60 * minutes
    counts = collections.Counter()
    clients = [Client(server, f"{seed} {i}", begin + seconds, counts) for i in range(CLIENTS)]
    threads = [threading.Thread(target=client.go) for client in clients]
    for thread in threads:
        thread.start()
    samples = []
    while any(thread.is_alive() for thread in threads):
        samples.append((time.monotonic() - begin, resident_kib(server.process.pid)))
        time.sleep(min(1, minutes))
    tenth = seconds / 10
    steady = statistics.median(kib for at, kib in samples if 2 * tenth <= at < 3 * tenth)
    last = statistics.median(kib for at, kib in samples if 9 * tenth <= at)
    return last / steady - 1, counts, [fault for client in clients for fault in client.faults]


def lost_pages(server):
    """Pages in use, with nothing running, that no known state holds."""
    server.wait_for_metric("yeoul_running", 0, seconds=120)
    server.wait_for_metric("yeoul_waiting", 0, seconds=120)
    _, _, text = server.request("GET", "/debug/cache", headers={"Accept": "application/json"})
    page = json.loads(text)
    return page["pages"]["used"] - page["pages"]["kept"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with Server("serve", "--port", 0, *OPTIONS, program=arguments.program) as server:
        growth, counts, faults = soak(server, arguments.minutes, arguments.seed)
        lost = lost_pages(server)
        evicted = server.metric("yeoul_snapshots_evicted_total")
        reused = server.metric("yeoul_prefix_hits_total")
    for fault in faults[:10]:
        print(fault, file=sys.stderr)
    acts = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    print(json.dumps({
        "name": "soak", "value": round(growth, 4),
        "unit": f"relative growth of resident memory in {arguments.minutes:g} minutes of {CLIENTS} clients ({acts}); "
                f"{len(faults)} requests gone wrong, {lost:g} pages unaccounted for, {evicted:.0f} states evicted, "
                f"{reused:.0f} prompts resumed",
        "goal": f"<= {GROWTH_MAX}, 0, 0", "holds": growth <= GROWTH_MAX and not faults and lost == 0}))


if __name__ == "__main__":
    main()
