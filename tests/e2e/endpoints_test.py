"""What each endpoint answers, whole and streamed."""
import json
import unittest

from harness import Server, chat, main, raw_request, read_reply

TOOL = {"type": "function", "function": {"name": "add", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "string"}}}}}
CALL = ('<｜DSML｜ calls>\n<｜DSML｜ invoke name="add">\n'
        '<｜DSML｜ parameter name="a" string="false">{}</｜DSML｜ parameter>\n'
        '<｜DSML｜ parameter name="b" string="true">여울 "q"</｜DSML｜ parameter>\n'
        '</｜DSML｜ invoke>\n')


def joined(events, choice=0):
    """Adds up the deltas of one choice as clients do."""
    message = {"content": "", "reasoning_content": "", "tool_calls": []}
    reason = None
    for event in events:
        if not isinstance(event, dict):
            continue
        for entry in event["choices"]:
            if entry["index"] != choice:
                continue
            delta = entry["delta"]
            for key in ("content", "reasoning_content"):
                message[key] += delta.get(key) or ""
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    assert call["index"] == len(message["tool_calls"])
                    assert call["type"] == "function"
                    message["tool_calls"].append(dict(call["function"]))
                else:
                    message["tool_calls"][call["index"]]["arguments"] += \
                        call["function"]["arguments"]
            reason = entry["finish_reason"] or reason
    return message, reason


class Endpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--progress-ms", 200).__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def whole(self, content, **fields):
        status, body = self.server.post("/v1/chat/completions", chat(content, **fields))
        self.assertEqual(status, 200, body)
        return body

    def count(self, text):
        """Tokens of a text, without an end token."""
        return self.server.post("/tokenize", {"content": text, "parse_special": True})[1]["count"]

    def test_a_chat_answer_has_every_field(self):
        body = self.whole("say:Hello, 여울!", seed=7)
        self.assertRegex(body["id"], r"^chatcmpl-[0-9a-f]{32}$")
        self.assertEqual(body["object"], "chat.completion")
        self.assertEqual(body["model"], "scripted")
        self.assertEqual(body["system_fingerprint"], "fp_scripted")
        choice = body["choices"][0]
        self.assertEqual(choice["message"], {"role": "assistant", "content": "Hello, 여울!"})
        self.assertEqual(choice["finish_reason"], "stop")
        self.assertIsNone(choice["logprobs"])
        usage = body["usage"]
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + usage["completion_tokens"])
        self.assertEqual(usage["prompt_tokens_details"], {"cached_tokens": 0})
        self.assertEqual(usage["completion_tokens_details"], {"reasoning_tokens": 0})
        self.assertEqual(body["yeoul"]["seed"], 7)
        self.assertEqual(body["yeoul"]["ignored_fields"], [])
        self.assertEqual(set(body["yeoul"]["timings"]), {"queue_s", "prefill_s", "decode_s"})

    def test_without_a_seed_a_fresh_53_bit_one_is_reported(self):
        seeds = {self.whole("say:a")["yeoul"]["seed"] for _ in range(4)}
        self.assertEqual(len(seeds), 4)
        self.assertLess(max(seeds), 2**53)

    def test_streamed_deltas_add_up_to_the_whole_answer(self):
        for content, fields in [
            ("say:plain 여울 text 🌊 end", {}),
            ("say:why so\n</think>\n\nbecause", {"thinking": {"type": "enabled"}}),
            ("say:why</think>" + CALL.format("7") + "</｜DSML｜ calls>",
             {"thinking": {"type": "enabled"}, "tools": [TOOL]}),
            ("say:Let me see.\n\n" + CALL.format("1.5") + CALL.split("\n", 1)[1].format("2")
             + "</｜DSML｜ calls>", {"tools": [TOOL]}),
            ("say:one two three", {"stop": ["two"]}),
            ("say:abcabcabd tail", {"stop": ["abd"]}),
            ("no script", {"max_tokens": 5}),
        ]:
            with self.subTest(content=content):
                choice = self.whole(content, **fields)["choices"][0]
                status, events = self.server.stream("/v1/chat/completions", chat(content, **fields))
                self.assertEqual(status, 200)
                self.assertEqual(events[-1], "[DONE]")
                message, reason = joined(events)
                whole = choice["message"]
                self.assertEqual(message["content"], whole["content"] or "")
                self.assertEqual(message["reasoning_content"], whole.get("reasoning_content", ""))
                self.assertEqual(message["tool_calls"],
                                 [call["function"] for call in whole.get("tool_calls", [])])
                self.assertEqual(reason, choice["finish_reason"])

    def test_a_stream_has_the_order_that_clients_expect(self):
        _, events = self.server.stream("/v1/chat/completions", chat(
            "say:ab", stream_options={"include_usage": True}))
        chunks = [event for event in events if isinstance(event, dict)]
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(len({(c["id"], c["created"], c["object"]) for c in chunks}), 1)
        self.assertEqual(chunks[0]["object"], "chat.completion.chunk")
        self.assertEqual(chunks[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertTrue(chunks[0]["choices"][0]["delta"]["content"], "role comes with the token")
        self.assertIn("seed", chunks[0]["yeoul"])
        for chunk in chunks[1:-1]:
            self.assertNotIn("role", chunk["choices"][0]["delta"])
        self.assertEqual(chunks[-2]["choices"][0]["delta"], {})
        self.assertEqual(chunks[-2]["choices"][0]["finish_reason"], "stop")
        self.assertEqual(chunks[-1]["choices"], [])
        self.assertEqual(chunks[-1]["usage"]["completion_tokens"], self.count("ab") + 1)  # and the end
        self.assertTrue(all(chunk["usage"] is None for chunk in chunks[:-1]))

    def test_continuous_usage_counts_up_in_every_chunk(self):
        _, events = self.server.stream("/v1/chat/completions", chat(
            "say:abc", stream_options={"include_usage": True, "continuous_usage_stats": True}))
        counts = [event["usage"]["completion_tokens"] for event in events[:-1]]
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[0], 1)

    def test_tool_calls_are_parsed_and_content_is_null(self):
        body = self.whole("say:" + CALL.format("[1, 2]") + "</｜DSML｜ calls>", tools=[TOOL])
        message = body["choices"][0]["message"]
        self.assertIsNone(message["content"])
        call = message["tool_calls"][0]
        self.assertRegex(call["id"], r"^call_[0-9a-f]{32}$")
        self.assertEqual(call["function"]["name"], "add")
        self.assertEqual(json.loads(call["function"]["arguments"]),
                         {"a": [1, 2], "b": '여울 "q"'})
        self.assertEqual(body["choices"][0]["finish_reason"], "tool_calls")

    def test_without_parallel_calls_the_answer_ends_after_one(self):
        two = CALL.format("1") + CALL.split("\n", 1)[1].format("2") + "</｜DSML｜ calls>"
        body = self.whole("say:" + two, tools=[TOOL], parallel_tool_calls=False)
        self.assertEqual(len(body["choices"][0]["message"]["tool_calls"]), 1)
        self.assertEqual(body["choices"][0]["finish_reason"], "tool_calls")
        self.assertEqual(len(self.whole("say:" + two, tools=[TOOL])["choices"][0]["message"]
                             ["tool_calls"]), 2)

    def test_a_required_call_starts_inside_the_block(self):
        text = CALL.format("3").split("\n", 1)[1] + "</｜DSML｜ calls>"
        body = self.whole("say:" + text, tools=[TOOL], tool_choice="required")
        self.assertEqual(body["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "add")

    def test_without_tools_markup_is_text(self):
        body = self.whole("say:" + CALL.format("1"))
        self.assertIn("DSML", body["choices"][0]["message"]["content"])
        self.assertEqual(body["choices"][0]["finish_reason"], "stop")

    def test_reasoning_is_kept_apart_and_counted(self):
        body = self.whole("say:why</think>yes", thinking={"type": "enabled"})
        message = body["choices"][0]["message"]
        self.assertEqual((message["reasoning_content"], message["content"]), ("why", "yes"))
        self.assertEqual(body["usage"]["completion_tokens_details"]["reasoning_tokens"],
                         self.count("why</think>"))

    def test_a_stop_string_ends_at_its_last_token_and_not_in_reasoning(self):
        body = self.whole("say:a stop</think>b stop c d e f", thinking={"type": "enabled"},
                          stop="stop")
        choice = body["choices"][0]
        self.assertEqual(choice["message"]["reasoning_content"], "a stop")
        self.assertEqual(choice["message"]["content"], "b ")
        self.assertEqual(choice["finish_reason"], "stop")
        whole = self.whole("say:a stop</think>b stop", thinking={"type": "enabled"})
        self.assertEqual(body["usage"]["completion_tokens"],
                         whole["usage"]["completion_tokens"] - 1)  # without the end token

    def test_max_tokens_and_stop_tokens_end_the_answer(self):
        body = self.whole("no script", max_tokens=3)
        self.assertEqual(body["choices"][0]["message"]["content"], "xxx")
        self.assertEqual(body["choices"][0]["finish_reason"], "length")
        self.assertEqual(body["usage"]["completion_tokens"], 3)
        x = json.loads(self.server.request("POST", "/tokenize", {"content": "x"})[2])["tokens"][0]
        body = self.whole("no script", stop_token_ids=[x])
        self.assertEqual(body["choices"][0]["message"]["content"], "")
        self.assertEqual(body["choices"][0]["finish_reason"], "stop")
        body = self.whole("say:ab", ignore_eos=True, max_tokens=4)
        self.assertEqual(body["choices"][0]["finish_reason"], "length")

    def test_n_choices_come_whole_and_streamed(self):
        body = self.whole("say:abc", n=3)
        self.assertEqual([c["index"] for c in body["choices"]], [0, 1, 2])
        self.assertEqual(body["usage"]["completion_tokens"], 3 * (self.count("abc") + 1))
        _, events = self.server.stream("/v1/chat/completions", chat("say:abc", n=3))
        for choice in range(3):
            self.assertEqual(joined(events, choice)[0]["content"], "abc")

    def test_logprobs_list_every_token_with_bytes(self):
        fields = {"logprobs": True, "top_logprobs": 2, "thinking": {"type": "enabled"}}
        choice = self.whole("say:why</think>é!", **fields)["choices"][0]
        content = choice["logprobs"]["content"]
        self.assertEqual(bytes(sum((e["bytes"] for e in content), [])).decode(), "é!")
        self.assertTrue(all(len(e["top_logprobs"]) == 2 for e in content))
        self.assertEqual(content[0]["logprob"], -0.25)
        reasoning = choice["logprobs"]["reasoning_content"]
        self.assertEqual("".join(e["token"] for e in reasoning), "why</think>")
        _, events = self.server.stream("/v1/chat/completions", chat("say:why</think>é!", **fields))
        streamed = {"content": [], "reasoning_content": []}
        for event in events[:-1]:
            for key, entries in (event["choices"][0]["logprobs"] or {}).items():
                streamed[key] += entries
        self.assertEqual(streamed, choice["logprobs"])

    def test_unknown_fields_are_listed(self):
        body = self.whole("say:a", zest=1, user="u")
        self.assertEqual(body["yeoul"]["ignored_fields"], ["zest"])

    def test_a_failed_row_ends_its_request_and_no_other(self):
        status, body = self.server.post("/v1/chat/completions", chat("fail:3"))
        self.assertEqual(status, 500, body)
        self.assertEqual(body["error"]["type"], "server_error")
        self.assertIn("scripted failure", body["error"]["message"])
        _, events = self.server.stream("/v1/chat/completions", chat("fail:3"))
        self.assertEqual(joined(events[:-1])[0]["content"], "xxx")
        self.assertIn("scripted failure", events[-1]["error"]["message"])  # and no [DONE]
        self.assertEqual(self.whole("say:fine")["choices"][0]["message"]["content"], "fine")

    def test_completions_take_text_lists_and_tokens(self):
        def texts(prompt, **fields):
            status, body = self.server.post("/v1/completions", {"prompt": prompt, **fields})
            self.assertEqual(status, 200, body)
            self.assertEqual(body["object"], "text_completion")
            return [choice["text"] for choice in body["choices"]]

        self.assertEqual(texts("say:abc"), ["abc"])
        self.assertEqual(texts("zz"), ["x" * 16])
        self.assertEqual(texts(["say:abc", "say:d"], n=2), ["abc", "abc", "d", "d"])
        _, tokens = self.server.post("/tokenize", {"prompt": "say:abc"})
        self.assertEqual(texts(tokens["tokens"]), ["abc"])
        self.assertEqual(texts([tokens["tokens"], tokens["tokens"]]), ["abc", "abc"])
        self.assertEqual(texts("say:abc", stop="b"), ["a"])
        _, body = self.server.post("/v1/completions", {"prompt": "say:aé", "logprobs": 1})
        logprobs = body["choices"][0]["logprobs"]
        self.assertEqual(logprobs["tokens"][0], "a")
        self.assertEqual(logprobs["text_offset"][:2], [0, 1])
        _, events = self.server.stream("/v1/completions", {"prompt": ["say:abc", "say:d"]})
        for index, text in enumerate(["abc", "d"]):
            self.assertEqual("".join(c["text"] for e in events[:-1] for c in e["choices"]
                                     if c["index"] == index), text)
        self.assertEqual(events[-1], "[DONE]")

    def test_routes_work_without_the_v1_prefix(self):
        status, body = self.server.post("/chat/completions", chat("say:a"))
        self.assertEqual((status, body["choices"][0]["message"]["content"]), (200, "a"))
        self.assertEqual(self.server.post("/completions", {"prompt": "say:a"})[0], 200)
        self.assertEqual(self.server.request("GET", "/models")[0], 200)

    def test_models_are_listed_and_unknown_ones_refused(self):
        status, _, text = self.server.request("GET", "/v1/models")
        models = json.loads(text)
        self.assertEqual([m["id"] for m in models["data"]], ["scripted", "scripted-alias"])
        self.assertEqual(models["data"][0]["max_model_len"], 4096)
        status, _, text = self.server.request("GET", "/v1/models/scripted-alias")
        self.assertEqual((status, json.loads(text)["object"]), (200, "model"))
        status, _, text = self.server.request("GET", "/v1/models/other")
        self.assertEqual((status, json.loads(text)["error"]["code"]), (404, "model_not_found"))
        status, body = self.server.post("/v1/chat/completions", chat("say:a", model="other"))
        self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))
        self.assertIn("scripted", body["error"]["message"])
        self.whole("say:a", model="scripted-alias")

    def test_tokenize_and_detokenize_are_inverse(self):
        text = "Hello 여울 <｜User｜> 🌊"
        _, tokens = self.server.post("/tokenize", {"content": text, "return_token_strs": True})
        self.assertEqual(tokens["count"], len(tokens["tokens"]))
        self.assertEqual(len(tokens["token_strs"]), tokens["count"])
        self.assertEqual(tokens["max_model_len"], 4096)
        self.assertEqual(self.server.post("/detokenize", {"tokens": tokens["tokens"]})[1]["prompt"],
                         text)
        _, marked = self.server.post("/tokenize", {"content": text, "parse_special": True})
        self.assertLess(marked["count"], tokens["count"])
        _, with_begin = self.server.post("/tokenize", {"prompt": text})
        self.assertEqual(with_begin["tokens"], [0, *tokens["tokens"]])
        _, conversation = self.server.post("/tokenize", chat("hi"))
        self.assertEqual(conversation["tokens"][0], 0)
        status, body = self.server.post("/detokenize", {"tokens": [99999]})
        self.assertEqual((status, body["error"]["param"]), (400, "tokens"))

    def test_the_cache_page_draws_for_people_and_counts_for_programs(self):
        for content in ("one memo", "another memo"):
            self.server.post("/v1/chat/completions", chat(content, max_tokens=3))
        status, headers, text = self.server.request("GET", "/debug/cache")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; charset=utf-8"))
        self.assertRegex(text, r"^\d+ of \d+ states, \d+ nodes; \d+ of \d+ pages used, \d+ by states\n")
        status, headers, text = self.server.request("GET", "/debug/cache",
                                                    headers={"Accept": "application/json"})
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        page = json.loads(text)
        self.assertEqual(page["pages"]["used"], page["pages"]["kept"])
        self.assertEqual(len(page["nodes"]), page["num_nodes"])
        self.assertEqual(page["running"], [])
        self.assertNotIn("memo", text)

    def test_health_metrics_and_root(self):
        self.assertEqual(self.server.request("GET", "/health")[::2], (200, '{"status":"ok"}'))
        status, headers, text = self.server.request("HEAD", "/")
        self.assertEqual((status, text), (200, ""))
        self.assertGreater(int(headers["Content-Length"]), 0)
        self.assertEqual(self.server.request("GET", "/")[0], 200)
        self.whole("say:a")
        status, headers, text = self.server.request("GET", "/metrics")
        self.assertTrue(headers["Content-Type"].startswith("text/plain"))
        for name in ["yeoul_running 0", "yeoul_waiting 0", "yeoul_pages_used 0",
                     "yeoul_time_to_first_token_seconds_bucket", "yeoul_inter_token_seconds_count",
                     'yeoul_requests_total{outcome="stop"}', "yeoul_output_tokens_total",
                     'yeoul_http_replies_total{route="/v1/chat/completions",status="200"}']:
            self.assertIn(name, text)

    def test_wrong_routes_and_methods_get_json(self):
        status, _, text = self.server.request("GET", "/nowhere")
        self.assertEqual((status, json.loads(text)["error"]["code"]), (404, "route_not_found"))
        status, headers, text = self.server.request("GET", "/v1/chat/completions")
        self.assertEqual((status, json.loads(text)["error"]["code"]), (405, "method_not_allowed"))
        self.assertEqual(headers["Allow"], "POST")
        self.assertEqual(self.server.request("DELETE", "/health")[0], 405)

    def test_a_request_id_comes_back(self):
        _, headers, _ = self.server.request("POST", "/v1/chat/completions", chat("say:a"),
                                            {"X-Request-Id": "mine-1"})
        self.assertEqual(headers["X-Request-Id"], "mine-1")
        _, headers, _ = self.server.request("GET", "/health")
        self.assertRegex(headers["X-Request-Id"], "^[0-9a-f]{32}$")

    def test_http_1_0_gets_an_unframed_stream_and_a_close(self):
        with self.server.connect() as client:
            body = raw_request(chat("say:abc", stream=True)).replace(b"HTTP/1.1", b"HTTP/1.0")
            client.sendall(body)
            received = b""
            while piece := client.recv(65536):
                received += piece
        head, _, text = received.partition(b"\r\n\r\n")
        self.assertNotIn(b"chunked", head)
        self.assertTrue(text.startswith(b"data: "), text[:50])
        self.assertTrue(text.endswith(b"data: [DONE]\n\n"))


class SeedFromPrompt(unittest.TestCase):
    def test_only_a_request_without_a_seed_gets_its_prompts_own(self):
        with Server("--seed-from-prompt") as server:
            def seed_of(content, **fields):
                body = {"messages": [{"role": "user", "content": content}], **fields}
                return server.post("/v1/chat/completions", body)[1]["yeoul"]["seed"]
            self.assertEqual(seed_of("say:a"), seed_of("say:a"))
            self.assertNotEqual(seed_of("say:a"), seed_of("say:b"))
            self.assertEqual(seed_of("say:a", seed=5), 5)


class Keys(unittest.TestCase):
    def test_everything_but_health_needs_a_key(self):
        with Server("--api-key", "secret", "--api-key", "other") as server:
            self.assertEqual(server.request("GET", "/health")[0], 200)
            for method, path in [("GET", "/v1/models"), ("GET", "/metrics"), ("POST", "/tokenize"),
                                 ("GET", "/nowhere"), ("POST", "/v1/chat/completions")]:
                status, headers, text = server.request(method, path, "{}" if method == "POST" else None)
                self.assertEqual((status, json.loads(text)["error"]["code"]),
                                 (401, "invalid_api_key"))
                self.assertEqual(headers["WWW-Authenticate"], "Bearer")
            for headers in [{"Authorization": "Bearer secret"}, {"Authorization": "bearer other"},
                            {"x-api-key": "secret"}]:
                self.assertEqual(server.request("GET", "/v1/models", headers=headers)[0], 200)
            for headers in [{"Authorization": "Bearer secre"}, {"Authorization": "Bearer secrets"},
                            {"Authorization": "secret"}, {"Authorization": "Bearer "}]:
                self.assertEqual(server.request("GET", "/v1/models", headers=headers)[0], 401)

    def test_a_public_address_without_keys_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "before it listened"):
            Server("--host", "0.0.0.0").__enter__()
        with Server("--host", "0.0.0.0", "--api-key", "k"):
            pass


if __name__ == "__main__":
    main()
