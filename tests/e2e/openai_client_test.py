"""The official Python client against the server. Runs itself in an environment with that client.

usage: openai_client_test.py PROGRAM [ENVIRONMENT]   (default: build/openai_client)
"""
import os
import pathlib
import subprocess
import sys
import unittest

CLIENT = "openai==3.57.0"
TESTS = pathlib.Path(__file__).parent


def run_inside(environment):
    """Makes the environment if need be and runs this file in it."""
    python = environment / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", CLIENT], check=True)
    os.execv(python, [python, __file__, sys.argv[1]])


try:
    import openai
except ImportError:
    run_inside(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/openai_client"))

from harness import Server, main  # noqa: E402

NO_THINKING = {"thinking": {"type": "disabled"}}
TOOL = {"type": "function", "function": {
    "name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}
CALL = ('say:<｜DSML｜ calls>\n<｜DSML｜ invoke name="add">\n<｜DSML｜ parameter name="a" '
        'string="false">7</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n</｜DSML｜ calls>')


def user(text):
    return [{"role": "user", "content": text}]


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--api-key", "k", "--context", 2000).__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)
        cls.client = openai.OpenAI(base_url=f"http://127.0.0.1:{cls.server.port}/v1", api_key="k",
                                   max_retries=0)
        cls.addClassCleanup(cls.client.close)

    def ask(self, text, **fields):
        return self.client.chat.completions.create(
            model="scripted", messages=user(text), extra_body=NO_THINKING, **fields)

    def test_models(self):
        self.assertEqual([m.id for m in self.client.models.list()], ["scripted", "scripted-alias"])
        self.assertEqual(self.client.models.retrieve("scripted").owned_by, "yeoul")

    def test_a_whole_answer(self):
        answer = self.ask("say:Hello, 여울!", logprobs=True, top_logprobs=2, seed=1)
        choice = answer.choices[0]
        self.assertEqual((choice.message.content, choice.finish_reason), ("Hello, 여울!", "stop"))
        self.assertEqual(len(choice.logprobs.content[0].top_logprobs), 2)
        self.assertEqual(answer.usage.completion_tokens_details.reasoning_tokens, 0)
        self.assertEqual(answer.model_extra["yeoul"]["seed"], 1)

    def test_a_stream_with_usage(self):
        text, usage = "", None
        for chunk in self.ask("say:Hello", stream=True, stream_options={"include_usage": True}):
            usage = chunk.usage or usage
            text += "".join(c.delta.content or "" for c in chunk.choices)
        self.assertEqual(text, "Hello")
        self.assertGreater(usage.total_tokens, 5)

    def test_the_stream_helper_assembles_tool_calls(self):
        with self.client.chat.completions.stream(model="scripted", messages=user(CALL),
                                                 tools=[TOOL], extra_body=NO_THINKING) as stream:
            events = [event.type for event in stream]
            final = stream.get_final_completion().choices[0]
        self.assertIn("tool_calls.function.arguments.delta", events)
        self.assertEqual(final.finish_reason, "tool_calls")
        self.assertEqual(final.message.tool_calls[0].function.name, "add")
        self.assertEqual(final.message.tool_calls[0].function.arguments, '{"a": 7}')

    def test_a_tool_conversation_goes_round(self):
        first = self.ask(CALL, tools=[TOOL]).choices[0].message
        second = self.client.chat.completions.create(
            model="scripted", tools=[TOOL], extra_body=NO_THINKING,
            messages=[*user("what is it"), first,
                      {"role": "tool", "tool_call_id": first.tool_calls[0].id,
                       "content": "say:seven"}])
        self.assertTrue(second.choices[0].message.content.startswith("seven"))

    def test_reasoning_is_carried_as_an_extra_field(self):
        answer = self.client.chat.completions.create(
            model="scripted", messages=user("say:why</think>yes"), reasoning_effort="low")
        self.assertEqual(answer.choices[0].message.content, "yes")
        self.assertEqual(answer.choices[0].message.reasoning_content, "why")

    def test_completions(self):
        answer = self.client.completions.create(model="scripted", prompt=["say:a", "say:b"])
        self.assertEqual([c.text for c in answer.choices], ["a", "b"])
        pieces = self.client.completions.create(model="scripted", prompt="say:abc", stream=True)
        self.assertEqual("".join(c.text for p in pieces for c in p.choices), "abc")

    def test_errors_arrive_as_the_right_exceptions(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask("x" * 4000)
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        with self.assertRaises(openai.BadRequestError) as caught:
            self.ask("a", response_format={"type": "json_object"})
        self.assertEqual(caught.exception.param, "response_format.type")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("other")
        with self.assertRaises(openai.AuthenticationError):
            self.client.with_options(api_key="wrong").models.list()
        with self.assertRaises(openai.InternalServerError):
            self.ask("fail:2")
        with self.assertRaises(openai.APIError) as caught:
            list(self.ask("fail:2", stream=True))
        self.assertIn("scripted failure", str(caught.exception))


if __name__ == "__main__":
    sys.argv = sys.argv[:2]
    main()
