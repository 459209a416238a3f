"""A test of a program with delays, without waiting: python3 -m unittest test_shop

Each test has a server of its own in a temporary folder, whose clock stands still until it is told.
TARRY names the binary, if it is not in the PATH.
"""
import json
import os
import re
import subprocess
import tempfile
import unittest
import urllib.request


class Tarry:
    """A server with a test clock."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [os.environ.get("TARRY", "tarry"), "serve", "--data", self.folder.name + "/store", "--test-clock",
             "--http", "127.0.0.1:0", "--beanstalk", "off"], stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if match := re.search(r"http on (\S+)", line):
                self.url = "http://" + match[1]
            if "ready in" in line:
                break

    def ask(self, method, path, body=None):
        with urllib.request.urlopen(urllib.request.Request(self.url + path, body, method=method)) as reply:
            return json.loads(reply.read() or "null")

    def advance(self, by):
        """When this returns, everything that is due by then has happened."""
        self.ask("POST", f"/v1/clock/advance?by={by}")

    def close(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        self.folder.cleanup()


class Shop(unittest.TestCase):
    def setUp(self):
        self.tarry = Tarry()
        self.addCleanup(self.tarry.close)

    def closed(self):
        """The orders that a worker would close now."""
        said = self.tarry.ask("POST", "/v1/topics/unpaid/reserve?count=100")
        return [job["body"] for job in said["jobs"]] if said else []

    def place(self, order):
        self.tarry.ask("POST", f"/v1/topics/unpaid/jobs?delay=30m&key={order}", order.encode())

    def test_an_unpaid_order_is_closed_after_half_an_hour(self):
        self.place("order-42")
        self.tarry.advance("29m59s")
        self.assertEqual(self.closed(), [])
        self.tarry.advance("1s")
        self.assertEqual(self.closed(), ["order-42"])

    def test_a_paid_order_is_never_closed(self):
        self.place("order-42")
        self.tarry.advance("29m")
        self.tarry.ask("DELETE", "/v1/topics/unpaid/keys/order-42")
        self.tarry.advance("365d")
        self.assertEqual(self.closed(), [])

    def test_a_worker_that_dies_gives_it_back(self):
        self.place("order-42")
        self.tarry.advance("30m")
        self.assertEqual(self.closed(), ["order-42"])  # and no ack
        self.tarry.advance("5m")
        self.assertEqual(self.closed(), ["order-42"])


if __name__ == "__main__":
    unittest.main()
