"""doc/recipes: the programs are run as their pages show, and print what these say.

What a page cannot show, since its server is well: refusals, played by a server that only says so.
"""
import hashlib
import hmac
import http.client
import http.server
import json
import os
import subprocess
import threading
import time

import pytest

import pages
from harness import PATIENCE_S
from pages import RUN, TOP, blocks_of, free_port
from test_docs import PLAYED, RECIPES

PAGES = [(page, kind) for page, kind in PLAYED if page.startswith(RECIPES)]


@pytest.mark.parametrize("page, kind", PAGES)
def test_recipe(page, kind, tmp_path):
    assert pages.play(TOP / page, kind, tmp_path) > 0


def test_programs_are_run():
    for page in (TOP / RECIPES).glob("*/README.md"):
        run = "".join(block.text for block in blocks_of(page) if block.lang in RUN and not block.reason)
        for program in page.parent.iterdir():
            if program.suffix in (".py", ".mjs", ".php", ".sh"):  # whoever followed the page has more there
                name = program.stem if program.name.startswith("test_") else program.name
                assert name in run, f"{program.relative_to(TOP)}: its page does not run it"
                assert f"]({program.name})" in page.read_text(), f"{program.relative_to(TOP)}: no link"


class Refusing(http.server.BaseHTTPRequestHandler):
    """Not ready for the first reserve; then a job whose lease is lost before its end; then nothing more."""
    protocol_version = "HTTP/1.1"
    job = {"id": "1", "lease": "00", "key": "k", "body": "sweep", "due": "now", "late_ms": 0, "attempts": 1}

    def answer(self):
        reserves = sum("/reserve" in path for path in self.server.asked)
        self.server.asked.append(self.path)
        if "/reserve" in self.path:
            status, said = [(503, None), (200, {"jobs": [self.job]}), (204, None)][min(reserves, 2)]
        else:
            status, said = (503, None) if self.command == "DELETE" else (409, None)
        text = b"" if status == 204 else json.dumps(said or {"error": {"message": f"refused {status}"}}).encode()
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_DELETE = answer

    def log_message(self, *_):
        pass


def beside_refusals(*command):
    """(how a program of a recipe ends, the paths that it has asked for)"""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    server.asked = []
    threading.Thread(target=server.serve_forever).start()
    env = {**os.environ, "TARRY_SERVER": f"http://127.0.0.1:{server.server_port}", "no_proxy": "*"}
    try:
        return subprocess.run(command, cwd=TOP / RECIPES, env=env, timeout=PATIENCE_S, text=True,
                              capture_output=True), server.asked
    finally:
        server.shutdown()
        server.server_close()


RUNS = {".py": "python3", ".mjs": "node", ".php": "php"}
WORKERS = ["cron/worker.py", "cron/worker.mjs", "debounce/save.py work", "debounce/save.mjs work",
           "from-rabbitmq/consumer.py", "from-rabbitmq/consumer.mjs", "from-redis-zset/worker.py",
           "from-redis-zset/worker.mjs", "order-timeout/shop.py work", "order-timeout/shop.php work",
           "reminders/remind.py work", "reminders/remind.php work"]


@pytest.mark.parametrize("worker", WORKERS)
def test_a_worker_goes_on_when_it_is_refused(worker):
    program, *words = worker.split()
    ended, asked = beside_refusals(RUNS["." + program.rpartition(".")[2]], program, *words, "100ms")
    assert ended.returncode == 0, ended
    assert ended.stdout.count("\n") == 1, ended  # the job was done
    assert "refused 503" in ended.stderr and "refused 409" in ended.stderr, ended
    assert len(asked) == 4, asked  # it did not spin


@pytest.mark.parametrize("shop", ["shop.py", "shop.php"])
def test_no_money_goes_back_for_an_answer_that_is_none(shop):
    ended, _ = beside_refusals(RUNS["." + shop.partition(".")[2]], f"order-timeout/{shop}", "pay", "42")
    assert ended.returncode != 0 and ended.stdout.count("money") == 0, ended
    assert "not known yet" in ended.stdout + ended.stderr and "refused 503" in ended.stdout + ended.stderr, ended


def test_an_unknown_word_is_told():
    ended, asked = beside_refusals("php", "reminders/remind.php", "wrok")
    assert (ended.returncode, asked) == (2, []) and "usage" in ended.stderr


@pytest.mark.parametrize("receiver", ["receiver.py", "receiver.mjs"])
def test_a_receiver_takes_both_secrets(receiver):
    """While a secret is being changed the header has a signature with each."""
    port = free_port()
    shop = subprocess.Popen([RUNS["." + receiver.partition(".")[2]], TOP / RECIPES / "notification-retries" / receiver,
                             str(port), "k3y", "1"], stdout=subprocess.DEVNULL)

    def sign(*secrets):
        now = str(int(time.time()))
        return f"t={now}" + "".join(f",v1={hmac.new(secret, now.encode() + b'.paid', hashlib.sha256).hexdigest()}"
                                    for secret in secrets)

    def status(signature):
        end = time.monotonic() + PATIENCE_S
        while True:
            wire = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
            try:
                wire.request("POST", "/", b"paid", {"Tarry-Attempt": "1", "Tarry-Due": "now", "Idempotency-Key": "1",
                                                    "Tarry-Signature": signature})
                return wire.getresponse().status
            except ConnectionRefusedError:
                assert shop.poll() is None and time.monotonic() < end
                time.sleep(0.02)
            finally:
                wire.close()

    try:
        assert [status(sign(*secrets)) for secrets in ([b"k3y"], [b"new", b"k3y"], [b"k3y", b"old"], [b"new"], [])] == (
            [200, 200, 200, 403, 403])
        assert status("v1=") == 403
    finally:
        shop.kill()
        shop.wait()
