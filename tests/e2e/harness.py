"""Starts a server program and talks to it, with the standard library only."""
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import unittest

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else None
# How many times longer an instrumented program may take.
PATIENCE = int(os.environ.get("YEOUL_TEST_PATIENCE", "1"))


class Server:
    """A running server; `with` it."""

    def __init__(self, *options, program=None, start_seconds=60):
        self.command = [program or PROGRAM, *map(str, options)]
        self.start_seconds = start_seconds

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.port = None
        for line in self.process.stdout:
            if "listening on http://" in line:
                self.port = int(line.strip().rsplit(":", 1)[1])
                break
        if self.port is None:
            self.process.stdout.close()
            raise RuntimeError(f"{self.command} ended with {self.process.wait()} before it listened")
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            self.process.stdout.close()
        if self.process.returncode != 0:  # also what a sanitizer says at the end
            raise RuntimeError(f"{self.command} ended with {self.process.returncode}")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def connect(self, timeout=20):
        return socket.create_connection(("127.0.0.1", self.port), timeout * PATIENCE)

    def request(self, method, path, body=None, headers=None, timeout=30):
        """-> (status, headers, body text)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout * PATIENCE)
        with contextlib.closing(connection):
            data = json.dumps(body) if isinstance(body, (dict, list)) else body
            connection.request(method, path, data, headers or {})
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read().decode()

    def post(self, path, body, **kwargs):
        """-> (status, parsed body)."""
        status, _, text = self.request("POST", path, body, **kwargs)
        return status, json.loads(text)

    def stream(self, path, body, timeout=30):
        """-> (status, list of events). An event is a dict, "[DONE]" or a comment as str."""
        status, headers, text = self.request("POST", path, {**body, "stream": True}, timeout=timeout)
        if not headers["Content-Type"].startswith("text/event-stream"):
            return status, [json.loads(text)]
        return status, list(parse_events(text))

    def metric(self, name):
        """Sum over the labels of a metric; 0 when it has not appeared yet."""
        _, _, text = self.request("GET", "/metrics")
        values = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                  if line.startswith(name) and line[len(name)] in " {"]
        return sum(values)

    def wait_for_metric(self, name, value, seconds=10):
        """Seconds it took to reach `value`."""
        begin = time.monotonic()
        while self.metric(name) != value:
            if time.monotonic() - begin > seconds:
                raise AssertionError(f"{name} is {self.metric(name)}, not {value}, after {seconds} s")
            time.sleep(0.01)
        return time.monotonic() - begin


def parse_events(text):
    for block in text.split("\n\n"):
        if block.startswith("data: "):
            data = block[len("data: "):]
            yield data if data == "[DONE]" else json.loads(data)
        elif block.startswith(": "):
            yield block
        elif block:
            raise AssertionError(f"not an event: {block!r}")


def chat(content, **fields):
    """A chat body with one user message, thinking off unless asked for."""
    body = {"messages": [{"role": "user", "content": content}], "thinking": {"type": "disabled"}}
    body.update(fields)
    return body


def raw_request(body, path="/v1/chat/completions", extra=""):
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n{extra}\r\n"
    return head.encode() + data


def read_reply(file):
    """Reads one reply from a socket file. -> (status, headers, body bytes)."""
    line = file.readline()
    if not line:
        raise EOFError("the server closed the connection")
    status = int(line.split()[1])
    headers = http.client.parse_headers(file)
    if headers.get("Transfer-Encoding") == "chunked":
        body = b""
        while True:
            size = int(file.readline(), 16)
            body += file.read(size)
            file.readline()
            if size == 0:
                return status, headers, body
    return status, headers, file.read(int(headers.get("Content-Length", 0)))


def main():
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
