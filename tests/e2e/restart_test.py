"""A server that is stopped and started again goes on from what the last one knew."""
import signal
import tempfile
import time
import unittest

from harness import PATIENCE, Server, chat, main

NOTES = "Please remember: " + " ".join(f"drawer {i} holds {i * 7} keys." for i in range(60))


class Restart(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.options = ("serve", "--port", 0, "--parallel", 2, "--context", 4096,
                        "--cache-dir", f"{folder.name}/cache", "--cache-disk", "256MiB")

    def ask(self, server):
        """-> text, usage and yeoul block of one greedy answer."""
        status, reply = server.post("/v1/chat/completions",
                                    chat(NOTES, temperature=0, max_tokens=12))
        self.assertEqual(status, 200, reply)
        cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"]
        return reply["choices"][0]["message"]["content"], cached, reply["yeoul"]["prefix"]

    def wait_until_durable(self, server):
        """Until what the server has kept is written and synced."""
        end = time.monotonic() + 20 * PATIENCE
        while time.monotonic() < end:
            kept, written, missed, units, durable = map(server.metric, (
                "yeoul_snapshots_kept_total", "yeoul_disk_states_written_total",
                "yeoul_disk_states_not_written_total", "yeoul_store_units",
                "yeoul_store_durable_units_total"))
            # A unit handed over last may still be in the queue: each state has one at least.
            if kept == written + missed and durable == units >= written:
                return
            time.sleep(0.05)
        self.fail(f"{kept} kept, {written} written, {missed} missed, {units} units, {durable} durable")

    def assert_comes_from_disk(self, text):
        with Server(*self.options) as server:
            again, cached, prefix = self.ask(server)
            self.assertEqual(again, text)
            self.assertGreater(cached, 200)
            self.assertEqual(prefix["tier"], "disk")
            self.assertEqual(server.metric("yeoul_disk_tier"), 1)
            self.assertEqual(server.metric("yeoul_disk_restores_total"), 1)
            self.assertGreater(server.metric("yeoul_store_read_units_total"), 0)
            self.assertEqual(self.ask(server)[2]["tier"], "ram")

    def test_after_a_regular_end(self):
        with Server(*self.options) as server:
            text, cached, prefix = self.ask(server)
            self.assertEqual((cached, prefix["tier"]), (0, "none"))
        self.assert_comes_from_disk(text)

    def test_after_being_killed(self):
        server = Server(*self.options).__enter__()
        self.addCleanup(server.process.kill)
        text, _, _ = self.ask(server)
        self.wait_until_durable(server)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        server.process.stdout.close()
        self.assert_comes_from_disk(text)

    def test_a_folder_of_something_else_is_left_alone_and_served_without(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/letter.txt", "w", encoding="utf-8") as letter:
                letter.write("dear")
            options = list(self.options)
            options[options.index("--cache-dir") + 1] = folder
            with Server(*options) as server:
                self.assertEqual(self.ask(server)[2]["tier"], "none")
                self.assertEqual(server.metric("yeoul_disk_tier"), 0)

    def test_a_second_server_on_the_same_folder_serves_without_it(self):
        with Server(*self.options) as first, Server(*self.options) as second:
            self.assertEqual(self.ask(first)[0], self.ask(second)[0])
            self.assertEqual(first.metric("yeoul_disk_tier"), 1)
            self.assertEqual(second.metric("yeoul_disk_tier"), 0)


if __name__ == "__main__":
    main()
