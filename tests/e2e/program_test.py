"""The real program: law 1 and the life of the server, seen from outside."""
import concurrent.futures
import json
import random
import time
import unittest

from harness import Server, chat, main, parse_events, raw_request, read_reply

# Random weights say nothing sensible, but always the same, and any small fault changes it.
RANDOM = ("--model", "models/tiny-random")
PROMPTS = ["Hello", "여울은 물이 빠르게 흐르는 곳이다.", "def f(x):\n    return x", "1, 2, 3,", "🌊" * 5,
           "The quick brown fox jumps over the lazy dog. " * 12]


def ask(prompt, index):
    """A request whose answer depends on everything that could leak between rows."""
    greedy = index % 3 == 0
    return chat(prompt, max_tokens=24 + index % 5, seed=index, temperature=0 if greedy else 1,
                top_p=1 if index % 2 else 0.9, logprobs=True, top_logprobs=3, ignore_eos=True,
                frequency_penalty=0.5 if index % 4 == 1 else 0,
                thinking={"type": "enabled" if index % 2 else "disabled"})


def essence(body):
    """What must not depend on anything but the request."""
    return json.dumps([body["choices"], {k: v for k, v in body["usage"].items()}], sort_keys=True)


class Program(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("serve", *RANDOM, "--port", 0).__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def whole(self, body):
        status, reply = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200, reply)
        return reply

    def test_an_answer_is_the_same_alone_and_among_forty(self):
        asked = [ask(PROMPTS[i % len(PROMPTS)], i) for i in range(40)]
        alone = [essence(self.whole(body)) for body in asked]
        order = list(range(40))
        random.Random(1).shuffle(order)
        with concurrent.futures.ThreadPoolExecutor(40) as pool:
            together = dict(zip(order, pool.map(lambda i: essence(self.whole(asked[i])), order)))
        for i in range(40):
            self.assertEqual(together[i], alone[i], f"request {i}")
        self.assertGreater(len(set(alone)), 30)

    def test_a_streamed_answer_is_the_whole_one(self):
        for i in range(8):
            body = ask(PROMPTS[i % len(PROMPTS)], i)
            message = self.whole(body)["choices"][0]["message"]
            _, events = self.server.stream("/v1/chat/completions", body)
            deltas = [c["delta"] for e in events[:-1] if isinstance(e, dict) for c in e["choices"]]
            for key in ("content", "reasoning_content"):
                self.assertEqual("".join(d.get(key) or "" for d in deltas), message.get(key, ""))

    def test_a_reported_seed_repeats_the_answer(self):
        body = chat("Hello", max_tokens=20, ignore_eos=True)
        first = self.whole(body)
        again = self.whole({**body, "seed": first["yeoul"]["seed"]})
        self.assertEqual(essence(again), essence(first))
        self.assertNotEqual(essence(self.whole(body)), essence(first))

    def test_choices_differ_and_the_first_is_the_only_one_of_n_1(self):
        body = chat("Hello", max_tokens=20, seed=3, ignore_eos=True)
        many = self.whole({**body, "n": 4})["choices"]
        self.assertEqual(len({c["message"]["content"] for c in many}), 4)
        self.assertEqual(self.whole(body)["choices"][0]["message"], many[0]["message"])

    def test_a_greedy_token_is_the_likeliest(self):
        body = chat("Hello", max_tokens=12, temperature=0, logprobs=True, top_logprobs=5,
                    ignore_eos=True)
        for entry in self.whole(body)["choices"][0]["logprobs"]["content"]:
            self.assertEqual(entry["bytes"], entry["top_logprobs"][0]["bytes"])
            probabilities = [e["logprob"] for e in entry["top_logprobs"]]
            self.assertEqual(probabilities, sorted(probabilities, reverse=True))
            self.assertLessEqual(probabilities[0], 0)

    def test_a_stop_string_cuts_where_it_stands(self):
        body = {"prompt": "Hello", "max_tokens": 40, "temperature": 0, "ignore_eos": True}
        text = self.server.post("/v1/completions", body)[1]["choices"][0]["text"]
        stop = text[10:13]
        reply = self.server.post("/v1/completions", {**body, "stop": stop})[1]
        self.assertEqual(reply["choices"][0]["text"], text[:text.index(stop)])
        self.assertEqual(reply["choices"][0]["finish_reason"], "stop")
        self.assertLess(reply["usage"]["completion_tokens"], 40)

    def test_text_and_its_tokens_are_the_same_prompt(self):
        tokens = self.server.post("/tokenize", {"prompt": PROMPTS[1]})[1]["tokens"]
        body = {"max_tokens": 10, "temperature": 0}
        texts = [self.server.post("/v1/completions", {**body, "prompt": p})[1]["choices"][0]["text"]
                 for p in (PROMPTS[1], tokens)]
        self.assertEqual(texts[0], texts[1])

    def test_a_client_that_leaves_frees_its_slot_and_pages(self):
        client = self.server.connect()
        client.sendall(raw_request(chat("Hello", stream=True, ignore_eos=True, n=4)))
        self.server.wait_for_metric("yeoul_running", 4)
        client.close()
        self.server.wait_for_metric("yeoul_running", 0, seconds=5)
        self.server.wait_for_metric("yeoul_pages_used", 0, seconds=5)


class Life(unittest.TestCase):
    def test_sigterm_finishes_what_runs(self):
        with Server("serve", *RANDOM, "--port", 0) as server, server.connect() as client:
            client.sendall(raw_request(chat("Hello", stream=True, ignore_eos=True, max_tokens=300)))
            file = client.makefile("rb")
            server.wait_for_metric("yeoul_running", 1)
            server.terminate()
            _, _, body = read_reply(file)
            events = list(parse_events(body.decode()))
            self.assertEqual(events[-1], "[DONE]")
            self.assertEqual(events[-2]["choices"][0]["finish_reason"], "length")
            begin = time.monotonic()
            self.assertEqual(server.process.wait(10), 0)
            self.assertLess(time.monotonic() - begin, 5)

    def test_options_reach_the_server(self):
        with Server("serve", "--port", 0, "--api-key", "k", "--model-name", "named",
                    "--parallel", 2, "--queue", 1) as server:
            self.assertEqual(server.request("GET", "/v1/models")[0], 401)
            status, _, text = server.request("GET", "/v1/models", None, {"x-api-key": "k"})
            self.assertEqual((status, json.loads(text)["data"][0]["id"]), (200, "named"))


if __name__ == "__main__":
    main()
