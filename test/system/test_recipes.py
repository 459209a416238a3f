"""doc/recipes: the programs are run as their pages show, and print what these say."""
import hashlib
import hmac
import http.client
import subprocess
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
            if program != page:
                name = program.stem if program.name.startswith("test_") else program.name
                assert name in run, f"{program.relative_to(TOP)}: its page does not run it"
                assert f"]({program.name})" in page.read_text(), f"{program.relative_to(TOP)}: no link"


RUNS = {".py": "python3", ".mjs": "node", ".php": "php"}


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
