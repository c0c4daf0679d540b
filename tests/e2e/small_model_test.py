"""The embedded checkpoint as `make serve` offers it: it answers, thinks, remembers, uses tools.

Every question is greedy, so law 1 makes the answers the same everywhere. How often the model is
right is measured by `make claims ONLY=tiny_`, not here.
"""
import json
import re
import unittest

from harness import Server, chat, main

def tool(name, description, key, kind):
    return {"type": "function", "function": {
        "name": name, "description": description,
        "parameters": {"type": "object", "properties": {key: {"type": kind}}, "required": [key]}}}


TOOLS = [tool("get_weather", "Weather of a city", "city", "string"),
         tool("set_timer", "Start a timer", "minutes", "integer")]
NOTES = """Please remember these notes.
Anna color: red
Noah pet: turtle
Grace city: Oslo
Emma food: soup"""


def turn(role, content, **fields):
    return {"role": role, "content": content, **fields}


class SmallModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("serve", "--port", 0).__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def ask(self, content, **fields):
        """-> the first choice of a whole reply."""
        body = {**chat(content, temperature=0, max_tokens=200), **fields}
        status, reply = self.server.post("/v1/chat/completions", body)
        self.assertEqual(status, 200, reply)
        return reply["choices"][0]

    def calls(self, message):
        return [(call["function"]["name"], json.loads(call["function"]["arguments"]))
                for call in message["tool_calls"]]

    def test_it_greets_and_stops(self):
        choice = self.ask("Hello!")
        self.assertEqual(choice["message"]["content"].strip(), "Hello! How can I help you?")
        self.assertEqual(choice["finish_reason"], "stop")

    def test_it_answers_korean_in_korean(self):
        content = self.ask("안녕!")["message"]["content"]
        self.assertRegex(content, r"^[가-힣 .,!?]+$")

    def test_it_says_what_it_does_not_know(self):
        self.assertIn("small training", self.ask("Explain volcanoes.")["message"]["content"])

    def test_it_works_sums_out_in_its_reasoning(self):
        message = self.ask("What is 34 + 25?", thinking={"type": "enabled"})["message"]
        self.assertEqual(message["content"].strip(), "59")
        self.assertIn("4 + 5 = 9", message["reasoning_content"])

    def test_it_remembers_what_it_was_told(self):
        told = [turn("user", NOTES), turn("assistant", "I will remember.")]
        for fact in ("Noah pet: turtle", "Grace city: Oslo", "Anna color: red"):
            question = turn("user", fact.split(":")[0] + "?")
            choice = self.ask("", messages=[*told, question])
            self.assertEqual(choice["message"]["content"].strip(), fact)

    def test_it_calls_a_tool_and_reads_the_result(self):
        fields = {"tools": TOOLS, "messages": [turn("user", "What is the weather in Oslo?")]}
        choice = self.ask("", **fields)
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertEqual(self.calls(choice["message"]), [("get_weather", {"city": "Oslo"})])
        call = choice["message"]["tool_calls"][0]
        fields["messages"] += [turn("assistant", None, tool_calls=[call]),
                               turn("tool", '{"weather": "snowy"}', tool_call_id=call["id"])]
        self.assertIn("snowy", self.ask("", **fields)["message"]["content"])

    def test_a_streamed_tool_call_is_the_whole_one(self):
        body = chat("Set a timer for 12 minutes.", temperature=0, max_tokens=200, tools=TOOLS)
        _, events = self.server.stream("/v1/chat/completions", body)
        deltas = [choice["delta"] for event in events[:-1] if isinstance(event, dict)
                  for choice in event["choices"]]
        parts = [part for delta in deltas for part in delta.get("tool_calls") or []]
        name = "".join(part["function"].get("name") or "" for part in parts)
        arguments = "".join(part["function"].get("arguments") or "" for part in parts)
        self.assertEqual((name, json.loads(arguments)), ("set_timer", {"minutes": 12}))

    def test_it_writes_json(self):
        content = self.ask("Give JSON: name Emma, age 31, city Rome")["message"]["content"]
        self.assertEqual(json.loads(content), {"name": "Emma", "age": 31, "city": "Rome"})

    def test_it_counts(self):
        content = self.ask("Count from 5 to 12.")["message"]["content"]
        self.assertEqual(re.findall(r"\d+", content), [str(n) for n in range(5, 13)])


if __name__ == "__main__":
    main()
