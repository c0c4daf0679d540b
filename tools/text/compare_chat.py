#!/usr/bin/env python3
"""Compares our prompts with those of independent implementations of the release's encoder.

    python3 tools/text/compare_chat.py TEXT_CHAT_PROGRAM [--count 3000] [--seed 1] [--json]
        [--release-encoder encoding.py]

1. deepseek-recipe (PyPI): prompt text and token ids of seeded random conversations. Where the two
   follow different rules on purpose (docs/chat_format.md), the script names the rule and accepts a
   difference only in conversations to which it applies.
2. With --release-encoder FILE, the file encoding/encoding.py of V4.1-Flash-1017 (as
   fetch_release_encoder.py leaves it): prompt text of conversations with everything it knows.
Exit code 1 on any unexplained difference.
"""
import argparse
import collections
import importlib.util
import json
import subprocess
import sys

import python_packages

VOCABULARY = python_packages.ROOT / "build/vocabulary/tokenizer.json"
EFFORT_NAMES = {50: "low", 75: "high", 100: "max"}


def our_answers(program, conversations):
    lines = "\n".join(json.dumps(c, ensure_ascii=False) for c in conversations) + "\n"
    out = subprocess.run([program, VOCABULARY], input=lines.encode(), stdout=subprocess.PIPE,
                         check=True).stdout.decode()
    answers = [json.loads(line) for line in out.split("\n")[:-1]]
    assert len(answers) == len(conversations)
    return answers


class Recipe:
    """deepseek-recipe as a renderer of our conversations."""

    def __init__(self):
        import deepseek_recipe
        self.lib = deepseek_recipe
        self.encoding = deepseek_recipe.DeepseekV41Encoding().with_tokenizer(
            deepseek_recipe.Tokenizer.from_file(str(VOCABULARY)))

    def message(self, m):
        text = "\n\n".join(m["content"])
        if m["role"] == "system":
            return self.lib.SystemMessage(text)
        if m["role"] == "user":
            return self.lib.UserMessage(text)
        if m["role"] == "tool":
            return self.lib.ToolMessage(text, m["tool_call_id"])
        calls = [self.lib.ToolCall(c["id"], c["name"], c["arguments"])
                 for c in m.get("tool_calls", [])]
        return self.lib.AssistantMessage(text, m.get("reasoning", ""), calls or None,
                                         m.get("continues", False))

    def render(self, c):
        tools = [self.lib.ToolDefinition(t["name"], t["description"], t["parameters"])
                 for t in c.get("tools", [])]
        talk = self.lib.Conversation(
            [self.message(m) for m in c["messages"]], thinking_mode=c["effort"] != 0, tools=tools,
            tool_choice=c.get("tool_choice", "auto"),
            reasoning_effort=EFFORT_NAMES.get(c["effort"]),
            response_schema=c.get("response_format"))
        return self.encoding.render_conversation(talk).prompt, self.encoding.encode(talk)


def recipe_rule(c):
    """The rule of docs/chat_format.md by which we differ from the recipe here, or None.

    Both rules are about which old reasoning is shown; without thinking there is no difference.
    """
    last = c["messages"][-1]
    if not c["effort"] or (c.get("tools") and c.get("tool_choice") != "none"):
        return None
    if last["role"] == "assistant" and not last.get("continues"):
        return "the reasoning of a last answer is kept"
    asked = [m["role"] for m in c["messages"]]
    while asked and asked[-1] == "assistant":
        asked.pop()
    if asked and asked[-1] == "tool":
        return "results of tools alone are no new question"
    return None


def load_release(path):
    spec = importlib.util.spec_from_file_location("release_encoding", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def release_messages(c):
    out = []
    for m in c["messages"]:
        n = {"role": "system" if m["role"] == "developer" else m["role"],
             "content": "\n\n".join(m["content"])}
        if "reasoning" in m:
            n["reasoning_content"] = m["reasoning"]
        if m.get("tool_calls"):
            n["tool_calls"] = [{"id": t["id"], "function": t} for t in m["tool_calls"]]
        if "tools" in m:
            n["tools"] = [{"function": t} for t in m["tools"]]
        for ours, theirs in (("tool_call_id", "tool_call_id"), ("task", "task"),
                             ("response_format", "response_format"), ("continues", "wo_eos")):
            if ours in m:
                n[theirs] = m[ours]
        out.append(n)
    if "tools" in c or "response_format" in c:
        if out[0]["role"] != "system":
            out.insert(0, {"role": "system", "content": ""})
        if "tools" in c:
            out[0]["tools"] = [{"function": t} for t in c["tools"]]
        if "response_format" in c:
            out[0]["response_format"] = c["response_format"]
    return out


def release_rule(c):
    """The rule of docs/chat_format.md by which we differ from the release here, or None."""
    messages = c["messages"]
    last = messages[-1]
    if last["role"] == "assistant" and not last.get("continues"):
        return "an answer follows an answer with a header"
    if last.get("continues") and c["effort"] and not any(last["content"]) and \
            len(last["content"]) < 2:
        return "a continued answer without text continues its reasoning"
    for before, after in zip(messages, messages[1:]):
        if before["role"] == "assistant" and after["role"] == "assistant":
            return "an answer follows an answer with a header"
    if len(messages) > 1 and last.get("task") and messages[-2]["role"] in ("user", "tool"):
        return "a task of a merged user message is kept"
    return None


def without_thinking(c):
    return {**c, "effort": 0}


def compare(name, conversations, program, render, rule, with_ids):
    counts = collections.Counter()
    for c, ours in zip(conversations, our_answers(program, conversations)):
        prompt, ids = render(c)
        if ours.get("prompt") == prompt and (not with_ids or ours["ids"] == ids):
            counts["equal"] += 1
            continue
        reason = rule(c)
        counts[reason or "UNEXPLAINED"] += 1
        if reason is None and counts["UNEXPLAINED"] <= 3:
            print(f"UNEXPLAINED against {name}:\n  conversation {json.dumps(c, ensure_ascii=False)}"
                  f"\n  ours  {ours.get('prompt', ours)!r}\n  {name} {prompt!r}", file=sys.stderr)
    return counts


def main():
    python_packages.reenter()
    import conversations
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--release-encoder")
    parser.add_argument("--json", action="store_true", help="print one line for make claims")
    options = parser.parse_args()
    talks = conversations.many(options.count, options.seed, extended=False)
    recipe = Recipe()
    results = {"recipe": compare("recipe", talks, options.program, recipe.render, recipe_rule,
                                 with_ids=True)}
    # The conversations whose difference was explained, without what explains it.
    plain = [without_thinking(c) for c in talks if recipe_rule(c)]
    results["recipe, the explained ones without thinking"] = compare(
        "recipe", plain, options.program, recipe.render, lambda c: None, with_ids=True)
    if options.release_encoder:
        release = load_release(options.release_encoder)
        talks = conversations.many(options.count, options.seed + 1, extended=True)

        def render(c):
            return release.encode_messages(
                release_messages(c), "thinking" if c["effort"] else "chat",
                drop_thinking=c["drop_old_reasoning"],
                reasoning_effort=c["effort"] or None), None
        results["release"] = compare("release", talks, options.program, render, release_rule,
                                     with_ids=False)
    wrong = sum(counts["UNEXPLAINED"] for counts in results.values())
    if options.json:
        print(json.dumps({"name": "chat_mismatches", "value": wrong,
                          "unit": f"of {options.count} conversations", "goal": "0 unexplained",
                          "holds": wrong == 0}))
        return 1 if wrong else 0
    for name, counts in results.items():
        for reason, count in counts.most_common():
            print(f"{name}: {count} {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
