#!/usr/bin/env python3
"""The evaluation of the small checkpoint tells right answers from wrong ones."""
import json
import pathlib
import random
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.tiny_model import evaluate  # noqa: E402


class Teacher:
    """Answers as the documents say."""

    def answer(self, conversation, asked):
        message = evaluate.open_ai_message(conversation["messages"][asked])
        return {"content": None, **message} if message["content"] else {**message, "content": None}

    def count_tokens(self, conversation, asked):
        return sum(len(m["content"][0].split()) for m in conversation["messages"][:asked])


class Stranger(Teacher):
    """Answers beside the point: a call of a wrong value, another language, a broken character."""

    def answer(self, conversation, asked):
        message = super().answer(conversation, asked)
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = '{"city": "Nowhere"}'
        return {**message, "content": random.Random(asked).choice(["perhaps", "네 \ufffd", "", None])}


class Evaluation(unittest.TestCase):
    def measured(self, server):
        return {name: (measure(server, random.Random(1), 6), unit, goal)
                for name, (measure, _, unit, goal) in evaluate.CLAIMS.items()}

    def test_true_answers_reach_every_goal(self):
        for name, (value, unit, goal) in self.measured(Teacher()).items():
            self.assertEqual(value, 0 if unit == "faulty replies" else 1, name)
            self.assertTrue(evaluate.row_of(name, value, 6, unit, goal)["holds"], name)

    def test_wrong_answers_reach_none(self):
        for name, (value, unit, goal) in self.measured(Stranger()).items():
            self.assertEqual(value, 6 if unit == "faulty replies" else 0, name)
            self.assertEqual(evaluate.row_of(name, value, 6, unit, goal)["holds"], goal is None, name)

    def test_the_promised_rows_are_those_that_are_measured(self):
        entry = json.loads((ROOT / "tests/claims.d/tiny_model.json").read_text())[0]
        self.assertEqual(entry["names"], list(evaluate.CLAIMS))

    def test_facts_stand_at_least_as_far_behind_as_the_claim_says(self):
        for talk, asked, expected in evaluate.recall_questions(Teacher(), random.Random(2), 250, 4):
            self.assertEqual(talk["messages"][asked]["content"][0], expected)
            distance = Teacher().count_tokens(talk, asked) - Teacher().count_tokens(talk, 1)
            self.assertGreaterEqual(distance, 250)


if __name__ == "__main__":
    unittest.main()
