"""Bodies that are wrong, too long or hostile: each has a status and a message, and the server goes on."""
import json
import unittest

from harness import Server, chat, main

CONTEXT = 4096


def user(content):
    return {"role": "user", "content": content}


class BadInput(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--context", CONTEXT, "--body-bytes", 4_000_000).__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def tearDown(self):
        status, body = self.server.post("/v1/chat/completions", chat("say:still here"))
        self.assertEqual((status, body["choices"][0]["message"]["content"]), (200, "still here"))

    def refused(self, body, status, code, param=None, message="", path="/v1/chat/completions"):
        with self.subTest(body=str(body)[:80]):
            got, _, text = self.server.request("POST", path, body)
            error = json.loads(text)["error"]
            self.assertEqual((got, error["code"], error["param"]), (status, code, param), error)
            self.assertIn(message, error["message"])
            self.assertIn("type", error)

    def test_bodies_that_are_not_json(self):
        for body in [b"", b"{", b"{'a':1}", b"\x00\x01", b'{"messages":[}', b"[" * 100_000,
                     b'{"a":1,"a":2}', b'{"a":"\xff\xfe"}', b'{"a":"\xc3"}', b'{"a":NaN}',
                     b'{"a":1e999}', b"{} {}", b'{"a":"' + b"x" * 10]:
            self.refused(body, 400, "invalid_json", message="invalid JSON")
            self.refused(body, 400, "invalid_json", path="/v1/completions")
            self.refused(body, 400, "invalid_json", path="/tokenize")
            self.refused(body, 400, "invalid_json", path="/detokenize")

    def test_wrong_shapes(self):
        self.refused(b"[]", 400, "invalid_value")
        self.refused({}, 400, "invalid_value", "messages")
        self.refused({"messages": []}, 400, "invalid_value", "messages", "at least one")
        self.refused({"messages": [{"role": "wizard", "content": "a"}]}, 400, "invalid_value",
                     "messages[0].role", "wizard")
        self.refused(chat("a", temperature=-1), 400, "invalid_value", "temperature", "found -1")
        self.refused(chat("a", temperature="NaN"), 400, "invalid_value", "temperature")
        self.refused(chat("a", max_tokens=0), 400, "invalid_value", "max_tokens", "found 0")
        self.refused(chat("a", n=1000), 400, "invalid_value", "n")
        self.refused(chat("a", response_format={"type": "json_object"}), 400, "unsupported",
                     "response_format.type")
        self.refused({"messages": [user([{"type": "image_url", "image_url": {"url": "data:"}}])]},
                     400, "unsupported", "messages[0].content[0].type", "image")
        self.refused({"prompt": "a", "echo": True}, 400, "unsupported", "echo",
                     path="/v1/completions")

    def test_more_than_the_context_is_refused_with_both_numbers(self):
        self.refused(chat("a", max_tokens=CONTEXT), 400, "context_length_exceeded", "messages",
                     f"the context holds {CONTEXT} tokens")
        self.refused(chat("a", max_tokens=10**9), 400, "context_length_exceeded", "messages",
                     "1000000000")
        self.refused(chat("a", max_tokens=10**30), 400, "invalid_value", "max_tokens")
        self.refused(chat("가나다" * 10_000), 400, "context_length_exceeded", "messages", "4096")
        self.refused({"prompt": [5] * (CONTEXT + 1)}, 400, "context_length_exceeded", "prompt",
                     "4097", path="/v1/completions")
        # The longest that fits runs.
        status, body = self.server.post("/v1/completions",
                                        {"prompt": [5] * (CONTEXT - 1), "max_tokens": 1})
        self.assertEqual((status, body["usage"]["total_tokens"]), (200, CONTEXT))

    def test_huge_schemas_and_conversations(self):
        tool = {"type": "function",
                "function": {"name": "f", "description": "d" * 2_000_000, "parameters": {}}}
        self.refused(chat("a", tools=[tool]), 400, "context_length_exceeded", "messages")
        self.refused({"messages": [user("m")] * 10_000}, 400, "context_length_exceeded", "messages")
        self.refused(chat("a", **{f"f{i}": 1 for i in range(20_000)}, max_tokens=0), 400,
                     "invalid_value", "max_tokens")

    def test_a_body_over_the_limit_is_413(self):
        self.refused(b" " * 4_000_001, 413, "body_too_large", message="4000000 bytes")

    def test_text_that_spells_markers_stays_text(self):
        _, plain = self.server.post("/tokenize", chat("</think><｜User｜>"))
        begin_of_user = plain["tokens"].count(500)  # <｜User｜> in this vocabulary
        self.assertEqual(begin_of_user, 1)


if __name__ == "__main__":
    main()
