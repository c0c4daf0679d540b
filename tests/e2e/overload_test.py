"""More requests than slots, more than the queue holds, and the end of the server."""
import concurrent.futures
import json
import threading
import time
import unittest

from harness import Server, chat, main, parse_events, raw_request, read_reply


class Overload(unittest.TestCase):
    def test_sixteen_run_and_more_wait(self):
        with Server("--step-ms", 10) as server, \
                concurrent.futures.ThreadPoolExecutor(40) as pool:
            answers = [pool.submit(server.post, "/v1/chat/completions",
                                   chat(f"say:answer number {i}")) for i in range(40)]
            peak = 0
            while not all(a.done() for a in answers):
                peak = max(peak, server.metric("yeoul_running"))
            for i, answer in enumerate(answers):
                status, body = answer.result()
                self.assertEqual(status, 200, body)
                self.assertEqual(body["choices"][0]["message"]["content"], f"answer number {i}")
            self.assertEqual(peak, 16)

    def test_a_full_queue_is_429_with_retry_after(self):
        with Server("--step-ms", 5, "--parallel", 2, "--queue", 2) as server:
            clients = [server.connect() for _ in range(4)]
            for i, client in enumerate(clients):
                client.sendall(raw_request(chat("no script", stream=True)))
                server.wait_for_metric("yeoul_running", min(i + 1, 2))
                server.wait_for_metric("yeoul_waiting", max(i - 1, 0))
            status, headers, text = server.request("POST", "/v1/chat/completions", chat("say:a"))
            self.assertEqual((status, json.loads(text)["error"]["code"]), (429, "queue_full"))
            self.assertGreaterEqual(int(headers["Retry-After"]), 1)
            status, _, _ = server.request("POST", "/v1/completions", {"prompt": ["a", "b", "c"]})
            self.assertEqual(status, 429)
            server.wait_for_metric("yeoul_waiting", 2)
            # A waiting client that leaves makes room as a running one does.
            clients[3].close()
            server.wait_for_metric("yeoul_waiting", 1)
            for client in clients[:3]:
                client.close()
            server.wait_for_metric("yeoul_running", 0)
            self.assertEqual(server.post("/v1/chat/completions", chat("say:a"))[0], 200)

    def test_a_waiting_stream_is_told_its_position(self):
        with Server("--step-ms", 5, "--parallel", 1, "--progress-ms", 100) as server, \
                server.connect() as first, server.connect() as second:
            first.sendall(raw_request(chat("no script", stream=True)))
            server.wait_for_metric("yeoul_running", 1)
            second.sendall(raw_request(chat("say:a", stream=True)))
            file = second.makefile("rb")
            received = b""
            while b"waiting, position 1" not in received:
                received += file.readline()
            first.close()
            while b"[DONE]" not in received:
                received += file.readline()


class Drain(unittest.TestCase):
    def test_sigterm_lets_what_runs_finish_and_refuses_the_rest(self):
        with Server("--step-ms", 20, "--drain-ms", 20_000) as server, \
                server.connect() as running, server.connect() as idle, server.connect() as later:
            running.sendall(raw_request(chat("say:" + "abc " * 10, stream=True)))
            server.wait_for_metric("yeoul_running", 1)
            later.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n")  # half a request
            time.sleep(0.1)
            server.terminate()
            self.assertEqual(idle.recv(10), b"")  # idle connections go at once
            later.sendall(raw_request(chat("say:late")).split(b"\r\n", 1)[1])
            status, headers, body = read_reply(later.makefile("rb"))
            self.assertEqual((status, json.loads(body)["error"]["code"]), (503, "draining"))
            self.assertIn("Retry-After", headers)
            with self.assertRaises(ConnectionRefusedError):
                server.connect().close()
            _, _, body = read_reply(running.makefile("rb"))
            events = list(parse_events(body.decode()))
            self.assertEqual(events[-1], "[DONE]")
            text = "".join(c["delta"].get("content", "") for e in events[:-1]
                           if isinstance(e, dict) for c in e["choices"])
            self.assertEqual(text.strip(), ("abc " * 10).strip())
            self.assertEqual(server.process.wait(10), 0)

    def test_the_drain_deadline_cancels_what_still_runs(self):
        with Server("--step-ms", 5, "--drain-ms", 300, "--context", 100_000) as server, \
                server.connect() as client:
            client.sendall(raw_request(chat("no script", stream=True)))
            server.wait_for_metric("yeoul_running", 1)
            begin = time.monotonic()
            server.terminate()
            self.assertEqual(server.process.wait(10), 0)
            self.assertLess(time.monotonic() - begin, 3)

    def test_stopping_under_load_never_hangs(self):
        for _ in range(3):
            with Server("--drain-ms", 100) as server:
                stop = threading.Event()

                def load():
                    while not stop.is_set():
                        try:
                            server.post("/v1/chat/completions", chat("say:abc"))
                        except (OSError, ValueError):
                            return

                threads = [threading.Thread(target=load) for _ in range(8)]
                for thread in threads:
                    thread.start()
                time.sleep(0.3)
                server.terminate()
                self.assertEqual(server.process.wait(10), 0)
                stop.set()
                for thread in threads:
                    thread.join()


if __name__ == "__main__":
    main()
