"""doc/http.md: every example is run, in order, and says what the page says; every route has one."""
import pathlib
import re
import subprocess

import pytest

from harness import PATIENCE_S
from web import Web, web_port, web_server

DOC = pathlib.Path(__file__).resolve().parents[2] / "doc" / "http.md"
NOT_YET = {501}  # routes that can say nothing else have no example


def steps_of(page):
    """(kind, [(command, output)]) of each example."""
    for kind, text in re.findall(r"```console *(\w*)\n(.*?)```", page.read_text(), re.S):
        steps = []
        for line in text.splitlines(keepends=True):
            if line.startswith("$ "):
                steps.append([line[2:].rstrip("\n"), ""])
            else:
                steps[-1][1] += line
        yield kind, steps


def blocks():
    return steps_of(DOC)


def run(shell, command):
    """What a command prints in a shell that goes on."""
    shell.stdin.write(f"{command}\nprintf '\\n--done--\\n'\n")
    shell.stdin.flush()
    said = ""
    while not said.endswith("--done--\n"):
        line = shell.stdout.readline()
        assert line, "the shell ended"
        said += line
    return said.removesuffix("--done--\n").strip("\n")


def matches(wanted, said):
    pattern = ".*".join(map(re.escape, wanted.strip("\n").split("…")))
    return re.fullmatch(pattern, said, re.S) is not None


FLAGS = {"": ["--sync", "always"], "classic": ["--set", "http.classic=on"],
         "clock": ["--test-clock"], "backup": ["--set", "store.backup_root=copies"]}


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in blocks()}))
def test_examples(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copies").mkdir()
    with web_server(tmp_path / "store", *FLAGS[kind]) as server:
        port = web_port(server)
        shell = subprocess.Popen(["bash"], cwd=tmp_path, stdin=subprocess.PIPE,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for command, wanted in [step for name, steps in blocks() if name == kind
                                    for step in steps]:
                said = run(shell, command.replace("localhost:11301", f"localhost:{port}"))
                assert matches(wanted, said), f"{command}\n{said}\nis not\n{wanted}"
            shell.stdin.close()
            assert shell.wait(PATIENCE_S) == 0
        finally:
            shell.kill()
            shell.wait()
            shell.stdout.close()
        assert server.stop() == 0


def test_every_route_has_an_example(tmp_path):
    with web_server(tmp_path / "store") as server:
        described = Web(web_port(server)).get("/openapi.json").json["paths"]
        assert server.stop() == 0
    shown = set()
    for _, steps in blocks():
        for command, _ in steps:
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
