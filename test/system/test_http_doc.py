"""doc/http.md: every example is run, in order, and says what the page says; every route has one."""
import re

import pytest

import pages
from web import Web, web_port, web_server

DOC = pages.TOP / "doc" / "http.md"
NOT_YET = {501}  # routes that can say nothing else have no example


@pytest.mark.parametrize("kind", sorted({block.kind for block in pages.blocks_of(DOC)}))
def test_examples(kind, tmp_path):
    assert pages.play(DOC, kind, tmp_path) > 0


def test_every_route_has_an_example(tmp_path):
    with web_server(tmp_path / "store") as server:
        described = Web(web_port(server)).get("/openapi.json").json["paths"]
        assert server.stop() == 0
    shown = set()
    for block in pages.blocks_of(DOC):
        for command, _ in block.steps:
            for part in re.split(r"[;|]", command):
                found = re.search(r"localhost:11301([^'\" ?)]*)", part)
                if found:
                    method = re.search(r"-X (\w+)", part)
                    shown.add((method[1] if method else "GET", re.sub(r"\$id", "7", found[1])))
    for path, methods in described.items():
        for method, about in methods.items():
            statuses = {int(status) for status in about["responses"] if status != "default"}
            if statuses - {400} <= NOT_YET:
                continue
            pattern = re.sub(r"\{\w+\}", "[^/]+", path)
            assert any(m == method.upper() and re.fullmatch(pattern, p) for m, p in shown), (
                f"{method.upper()} {path} has no example")
