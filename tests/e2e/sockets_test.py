"""Clients that are slow, rude or gone."""
import json
import resource
import socket
import time
import unittest

from harness import Server, chat, main, raw_request, read_reply


class Sockets(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--step-ms", 5, "--header-timeout-ms", 700, "--body-timeout-ms", 700,
                            "--idle-timeout-ms", 20_000, "--progress-ms", 100,
                            "--connections", 1200).__enter__()
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def tearDown(self):
        status, body = self.server.post("/v1/chat/completions", chat("say:ok"))
        self.assertEqual((status, body["choices"][0]["message"]["content"]), (200, "ok"))
        self.server.wait_for_metric("yeoul_running", 0)

    def error_on(self, client):
        status, headers, body = read_reply(client.makefile("rb"))
        return status, json.loads(body)["error"]["code"]

    def test_slow_loris_gets_408(self):
        with self.server.connect() as client:
            begin = time.monotonic()
            for byte in b"POST /v1/chat/completions HT":
                client.sendall(bytes([byte]))
                time.sleep(0.05)
                if time.monotonic() - begin > 0.6:
                    break
            self.assertEqual(self.error_on(client), (408, "request_timeout"))
            self.assertLess(time.monotonic() - begin, 3)

    def test_a_slow_body_gets_408(self):
        with self.server.connect() as client:
            client.sendall(b"POST /tokenize HTTP/1.1\r\nContent-Length: 100\r\n\r\n{\"con")
            self.assertEqual(self.error_on(client), (408, "request_timeout"))

    def test_malformed_http_gets_400(self):
        for head in [b"NONSENSE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\na b\r\n\r\n",
                     b"POST /tokenize HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
                     b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"]:
            with self.subTest(head=head), self.server.connect() as client:
                client.sendall(head)
                self.assertEqual(self.error_on(client), (400, "invalid_http"))

    def test_too_long_headers_get_431(self):
        with self.server.connect() as client:
            client.sendall(b"GET / HTTP/1.1\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n")
            self.assertEqual(self.error_on(client), (431, "headers_too_large"))

    def test_chunked_bodies_are_read(self):
        body = json.dumps(chat("say:chunked")).encode()
        with self.server.connect() as client:
            client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n")
            for i in range(0, len(body), 7):
                piece = body[i:i + 7]
                client.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            client.sendall(b"0\r\n\r\n")
            file = client.makefile("rb")
            status, _, text = read_reply(file)
            self.assertEqual(status, 200)
            self.assertEqual(json.loads(text)["choices"][0]["message"]["content"], "chunked")
            client.sendall(b"GET /health HTTP/1.1\r\n\r\n")  # and the connection is still good
            self.assertEqual(read_reply(file)[0], 200)

    def test_expect_100_continue(self):
        body = json.dumps({"content": "a"}).encode()
        head = (b"POST /tokenize HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
                % len(body))
        with self.server.connect() as client:
            client.sendall(head)
            file = client.makefile("rb")
            self.assertEqual(file.readline(), b"HTTP/1.1 100 Continue\r\n")
            self.assertEqual(file.readline(), b"\r\n")
            client.sendall(body)
            self.assertEqual(read_reply(file)[0], 200)
        with self.server.connect() as client:
            client.sendall(head.replace(b"100-continue", b"miracles"))
            self.assertEqual(self.error_on(client), (417, "expectation_failed"))

    def test_pipelined_requests_are_answered_in_order(self):
        with self.server.connect() as client:
            client.sendall(raw_request(chat("say:first")) + raw_request(chat("say:2", stream=True))
                           + b"GET /health HTTP/1.1\r\n\r\n" + raw_request(chat("say:third")))
            file = client.makefile("rb")
            replies = [read_reply(file) for _ in range(4)]
        self.assertEqual([status for status, _, _ in replies], [200] * 4)
        self.assertIn(b"first", replies[0][2])
        self.assertTrue(replies[1][2].endswith(b"data: [DONE]\n\n"))
        self.assertEqual(replies[2][2], b'{"status":"ok"}')
        self.assertIn(b"third", replies[3][2])

    def test_a_half_closed_client_gets_answers_that_take_no_generation(self):
        with self.server.connect() as client:
            client.sendall(b"GET /v1/models HTTP/1.1\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            self.assertEqual(read_reply(client.makefile("rb"))[0], 200)

    def test_a_half_closed_client_counts_as_gone_during_generation(self):
        with self.server.connect() as client:
            client.sendall(raw_request(chat("no script")))
            self.server.wait_for_metric("yeoul_running", 1)
            client.shutdown(socket.SHUT_WR)
            self.server.wait_for_metric("yeoul_running", 0)
            self.assertEqual(client.recv(100), b"")

    def test_a_client_that_leaves_frees_its_slot(self):
        for stream in [False, True]:
            left = self.server.metric('yeoul_requests_total{outcome="disconnected"}')
            client = self.server.connect()
            client.sendall(raw_request(chat("no script", stream=stream, n=2)))
            self.server.wait_for_metric("yeoul_running", 2)
            client.close()
            seconds = self.server.wait_for_metric("yeoul_running", 0)
            self.assertLess(seconds, 1)
            self.assertEqual(self.server.metric('yeoul_requests_total{outcome="disconnected"}'),
                             left + 1)
            self.assertEqual(self.server.metric("yeoul_pages_used"), 0)

    def test_connection_close_is_honoured(self):
        for request in [b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n",
                        b"GET /health HTTP/1.0\r\n\r\n",
                        raw_request(chat("say:a"), extra="Connection: close\r\n"),
                        raw_request(chat("say:a", stream=True), extra="Connection: close\r\n")]:
            with self.subTest(request=request), self.server.connect(5) as client:
                client.sendall(request)
                file = client.makefile("rb")
                status, headers, _ = read_reply(file)
                self.assertEqual((status, headers["Connection"]), (200, "close"))
                self.assertEqual(file.read(), b"")

    def test_half_a_request_and_a_close_harms_nobody(self):
        for piece in [b"", b"P", b"POST /tokenize HTTP/1.1\r\nContent-Length: 50\r\n\r\n{"]:
            with self.server.connect() as client:
                client.sendall(piece)

    def test_a_thousand_idle_connections_leave_room_for_work(self):
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        idle = [self.server.connect() for _ in range(1000)]
        try:
            begin = time.monotonic()
            status, body = self.server.post("/v1/chat/completions", chat("say:busy"))
            self.assertEqual((status, body["choices"][0]["message"]["content"]), (200, "busy"))
            self.assertLess(time.monotonic() - begin, 2)
            for client in idle[::100]:  # and they are still served
                client.sendall(b"GET /health HTTP/1.1\r\n\r\n")
                self.assertEqual(read_reply(client.makefile("rb"))[0], 200)
        finally:
            for client in idle:
                client.close()

    def test_silence_is_filled_with_progress_comments(self):
        with Server("--step-ms", 300, "--progress-ms", 100) as slow:
            _, events = slow.stream("/v1/chat/completions", chat("say:a" + "b" * 2000 + "say:c"))
        comments = [e for e in events if isinstance(e, str) and e.startswith(": yeoul prefill")]
        self.assertTrue(comments, events)
        self.assertRegex(comments[-1], r"^: yeoul prefill \d+/\d+$")
        self.assertLess(len(comments), 40)


class Limits(unittest.TestCase):
    def test_connections_over_the_limit_get_503(self):
        with Server("--connections", 3) as server:
            held = [server.connect() for _ in range(3)]
            for client in held:  # answered, so that all three have been accepted
                client.sendall(b"GET /health HTTP/1.1\r\n\r\n")
                self.assertEqual(read_reply(client.makefile("rb"))[0], 200)
            with server.connect() as client:
                status, _, body = read_reply(client.makefile("rb"))
                self.assertEqual((status, json.loads(body)["error"]["code"]),
                                 (503, "too_many_connections"))
            for client in held:
                client.close()
            time.sleep(0.2)
            self.assertEqual(server.request("GET", "/health")[0], 200)

    def test_bodies_share_a_limit(self):
        with Server("--all-bodies-bytes", 100_000) as server:
            head = b"POST /tokenize HTTP/1.1\r\nContent-Length: 90000\r\n\r\n"
            chunked = b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
            body = json.dumps({"content": "a" * 20_000}).encode()
            with server.connect() as first:
                first.sendall(head + b"{")
                time.sleep(0.2)
                for request in [head + b"{", chunked + b"%x\r\n%s\r\n" % (len(body), body)]:
                    with server.connect() as second:
                        second.sendall(request)
                        status, _, text = read_reply(second.makefile("rb"))
                        self.assertEqual((status, json.loads(text)["error"]["code"]),
                                         (503, "too_many_bodies"))
                self.assertEqual(server.post("/tokenize", {"content": "small"})[0], 200)
            time.sleep(0.2)  # the first has left, its share is free again
            self.assertEqual(server.request("POST", "/tokenize", body)[0], 200)

    def test_an_idle_connection_is_closed(self):
        with Server("--idle-timeout-ms", 200) as server, server.connect() as client:
            begin = time.monotonic()
            self.assertEqual(client.recv(10), b"")
            self.assertLess(time.monotonic() - begin, 2)

    def test_a_reader_that_does_not_read_is_cancelled_and_holds_nobody_up(self):
        with Server("--stream-tokens", 16, "--slow-reader-ms", 500, "--write-timeout-ms", 60_000,
                    "--context", 200_000) as server, server.connect() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(raw_request(chat("no script", stream=True, n=4)))
            server.wait_for_metric("yeoul_running", 4)
            status, body = server.post("/v1/chat/completions", chat("say:other"))
            self.assertEqual((status, body["choices"][0]["message"]["content"]), (200, "other"))
            server.wait_for_metric("yeoul_running", 0, seconds=20)


if __name__ == "__main__":
    main()
