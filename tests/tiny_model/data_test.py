#!/usr/bin/env python3
"""The training data of the small checkpoint: what it promises about splits, words and sums.

    python3 tests/tiny_model/data_test.py TEXT_CHAT
"""
import json
import pathlib
import random
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tools.tiny_model import dialogues, generate, recall, sums, tool_calls, words  # noqa: E402

TEXT_CHAT = None


def drawn(split, count, seed=1, length=700):
    rng = random.Random(seed)
    return [dialogues.draw(rng, split, length) for _ in range(count)]


class Splits(unittest.TestCase):
    def test_no_fact_sum_or_call_of_one_split_is_in_the_other(self):
        def combinations(split):
            rng, found = random.Random(3), set()
            for _ in range(1500):
                for language in ("en", "ko"):
                    found |= set(recall.draw_facts(rng, split, language, 3))
                found.add(sums.draw_sum(rng, split)[:3])
                for name in tool_calls.TOOLS:
                    found.add((name, tool_calls.draw_call(rng, split, name)[1]))
            return found
        train, held = combinations("train"), combinations("held")
        self.assertFalse(train & held)
        self.assertGreater(len(held), 300)
        for name in tool_calls.TOOLS:
            self.assertTrue(any(name in combination for combination in held), name)

    def test_every_kind_can_be_drawn_for_both(self):
        for split in ("train", "held"):
            self.assertEqual({document.kind for document in drawn(split, 800)}, set(dialogues.KINDS))

    def test_equal_seeds_draw_equal_documents(self):
        self.assertEqual(drawn("train", 50, seed=5), drawn("train", 50, seed=5))
        self.assertNotEqual(drawn("train", 50, seed=5), drawn("train", 50, seed=6))


class Truth(unittest.TestCase):
    def test_steps_of_a_sum_end_in_its_result(self):
        rng = random.Random(2)
        for _ in range(500):
            a, operator, b, result, steps = sums.draw_sum(rng, "train")
            self.assertEqual(result, {"+": a + b, "-": a - b, "*": a * b}[operator])
            if operator == "*":
                self.assertEqual(steps, [f"{b - i}: {a} * {i + 1} = {a * (i + 1)}" for i in range(b)])
                self.assertEqual(steps[-1], f"1: {a} * {b} = {result}")
                continue
            for step in steps:
                said = re.match(r"([\d +-]+) = (\d+)", step)
                if said:  # the last carry stands alone
                    self.assertEqual(eval(said[1]), int(said[2]), step)  # digits, + and - only
            digits = [re.search(r"(?:: |= )(\d)(?:, carry 1|, borrow 1)?$", step) for step in steps]
            spelled = "".join(reversed([d[1] if d else step for d, step in zip(digits, steps)]))
            self.assertEqual(int(spelled), result, steps)

    def test_what_is_asked_back_was_said_before(self):
        rng = random.Random(4)
        for budget in (100, 300, 1000):
            for _ in range(100):
                document = recall.draw(rng, "train", budget)
                texts = [m["content"][0] for m in document.conversation["messages"]]
                notes = texts[0].split("\n")[1:]
                for answer in texts[3::2]:
                    for line in answer.split("\n"):
                        if ": " in line:
                            self.assertIn(line, notes)

    def test_a_distant_question_has_its_fact_and_one_answer(self):
        for distance in (250, 1000):
            document, answer = recall.draw_distant(random.Random(7), "held", distance)
            messages = document.conversation["messages"]
            self.assertIn(answer, messages[0]["content"][0].split("\n"))
            self.assertEqual(messages[-1]["content"][0], answer)

    def test_calls_are_of_tools_that_are_offered(self):
        rng = random.Random(8)
        for count in (1, 2):
            for _ in range(200):
                talk = tool_calls.draw(rng, "held", count).conversation
                offered = {tool["name"]: set(tool["parameters"]["properties"]) for tool in talk["tools"]}
                calls = talk["messages"][1]["tool_calls"]
                self.assertEqual(len(calls), count)
                for call in calls:
                    self.assertEqual(set(json.loads(call["arguments"])), offered[call["name"]])

    def test_further_turns_call_what_the_first_one_was_offered(self):
        rng, turns = random.Random(9), set()
        for _ in range(100):
            talk = tool_calls.draw(rng, "held", 2, 1024).conversation
            offered = {tool["name"] for tool in talk["tools"]}
            asked = [m["tool_calls"] for m in talk["messages"] if m.get("tool_calls")]
            turns.add(len(asked))
            for calls in asked:
                self.assertEqual(len({call["name"] for call in calls} & offered), 2)
        self.assertEqual(turns, {1, 2, 3})

    def test_only_training_puts_words_of_another_kind_into_small_talk(self):
        kinds = dict(words.FACTS["ko"], name=words.NAMES["ko"])
        def foreign(split):
            rng = random.Random(10)
            return sum(word not in kinds["도시"] for _ in range(2000)
                       for word in [rng.choice(dialogues.words_for(rng, split, "ko", "도시"))])
        self.assertEqual(foreign("held"), 0)
        self.assertTrue(100 < foreign("train") < 400)

    def test_every_kind_answers_with_thinking_on_and_only_sums_have_steps_to_think(self):
        documents = drawn("train", 1500)
        self.assertEqual({d.kind for d in documents if d.conversation["effort"]},
                         set(dialogues.KINDS) - {"arithmetic_plain"})
        self.assertEqual({d.kind for d in documents if not d.conversation["effort"]},
                         set(dialogues.KINDS) - {"arithmetic_think"})
        reasoned = {d.kind for d in documents for m in d.conversation["messages"] if m.get("reasoning")}
        self.assertEqual(reasoned, {"arithmetic_think"})

    def test_words_are_not_in_two_places(self):
        for language in ("en", "ko"):
            names = set(words.NAMES[language])
            for values in words.FACTS[language].values():
                self.assertFalse(names & set(values))


class Rows(unittest.TestCase):
    def test_files_repeat_and_answers_weigh_more_than_prompts(self):
        with tempfile.TemporaryDirectory() as folder:
            first, second = (self.generate(f"{folder}/{name}") for name in ("one", "two"))
            for one, two in zip(first, second):
                self.assertTrue((one == two).all())
            tokens, weights, _ = first
            self.assertEqual(tokens.shape, (8, 192))
            self.assertEqual(set(weights.ravel().tolist()), {generate.PROMPT, generate.ANSWER})
            self.assertTrue((tokens[0, 0] == 0).all())  # every row begins a conversation
            self.assertTrue((weights[tokens == 0] == generate.PROMPT).all())

    def test_documents_are_whole_where_shorter_ones_can_fill_the_row(self):
        lengths = [9, 50, 30, 60, 8, 101, 40, 2] * 40  # 101 is longer than a row
        stream = (([1] + [7] * (length - 1), [10] * length, length) for length in lengths)
        tokens, weights, kinds = generate.pack(stream, 12, 100)
        self.assertTrue((weights == 10).all())
        self.assertTrue((tokens[:, 0] == 1).all())
        self.assertFalse((kinds == 101).any())
        for length in (9, 50, 30, 60, 8, 40):
            self.assertGreater((kinds == length).sum(), 0)
            self.assertEqual((kinds == length).sum(), length * ((kinds == length) & (tokens == 1)).sum())

    def test_short_kinds_do_not_fade_as_rows_get_longer(self):
        encoder = generate.Encoder(TEXT_CHAT, ROOT / "models/tiny-random/tokenizer.json")

        def share(mix, length):
            rng = random.Random(9)
            documents = [dialogues.draw(rng, "train", length, mix) for _ in range(1000)]
            sizes = [len(ids) for ids in encoder.encode([d.conversation for d in documents])]
            short = sum(n for d, n in zip(documents, sizes) if d.kind.startswith("arithmetic"))
            return short / sum(sizes)
        for mix in ("early", "main"):
            self.assertGreater(share(mix, 1024), 0.6 * share(mix, 256), mix)

    def test_recall_reaches_as_far_back_as_a_row_is_long(self):
        rng = random.Random(10)
        encoder = generate.Encoder(TEXT_CHAT, ROOT / "models/tiny-random/tokenizer.json")
        talks = [recall.draw(rng, "train", 1000).conversation for _ in range(60)]
        self.assertGreater(max(len(ids) for ids in encoder.encode(talks)), 900)

    def test_recalled_values_weigh_most_and_the_choice_to_think_is_the_prompts(self):
        class Encoder:
            markers = {"<｜Assistant｜>": 7, "<｜end▁of▁sentence｜>": 1}
        ids = [0, 5, 30, 7, 8, 40, 30, 1, 5, 40]  # begin, user, value, assistant, </think>, answer, end
        self.assertEqual(generate.weights_of(ids, {30}, Encoder), [1, 1, 1, 1, 1, 10, 40, 10, 1, 1])

    def test_the_arguments_of_a_call_are_among_what_weighs_most(self):
        for seed in range(60):
            document = tool_calls.draw(random.Random(seed), "train", 2)
            for call in document.conversation["messages"][1]["tool_calls"]:
                for value in json.loads(call["arguments"]).values():
                    text = str(value).lower() if isinstance(value, bool) else str(value)
                    parts = text if text.isdigit() else [text]
                    self.assertLessEqual(set(parts), set(document.values), document.values)

    def test_a_tokenizer_replaced_meanwhile_changes_neither_ids_nor_weights(self):
        talk = [{"messages": [{"role": "user", "content": ["Anna color: red"]}], "effort": 0}]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            path.write_bytes((ROOT / "models/tiny-random/tokenizer.json").read_bytes())
            encoder = generate.Encoder(TEXT_CHAT, path)
            before = encoder.encode(talk)
            changed = json.loads(path.read_text(encoding="utf-8"))
            vocab = changed["model"]["vocab"]
            used, other = [entry for entry, i in vocab.items() if i in before[0]][:2]
            vocab[used], vocab[other] = vocab[other], vocab[used]
            path.write_text(json.dumps(changed, ensure_ascii=False), encoding="utf-8")
            self.assertNotEqual(generate.Encoder(TEXT_CHAT, path).encode(talk), before)
            self.assertEqual(encoder.encode(talk), before)

    @staticmethod
    def generate(folder):
        import numpy as np
        arguments = ["generate", TEXT_CHAT, str(ROOT / "models/tiny-random/tokenizer.json"), folder,
                     "--length", "192", "--rows", "8", "--seed", "3"]
        before, sys.argv = sys.argv, arguments
        try:
            generate.main()
        finally:
            sys.argv = before
        return [np.load(f"{folder}/{name}.npy") for name in ("tokens", "weights", "kinds")]


if __name__ == "__main__":
    TEXT_CHAT = sys.argv.pop(1)
    unittest.main()
