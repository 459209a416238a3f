"""doc/cli.md: every example is run, in order, and says what the page says."""
import os
import pathlib
import subprocess

from harness import PATIENCE_S, TARRY
from test_http_doc import matches, run, steps_of
from web import web_port, web_server

DOC = pathlib.Path(__file__).resolve().parents[2] / "doc" / "cli.md"


def trimmed(text):
    """Without what stands at the end of a line and cannot be seen."""
    return "\n".join(line.rstrip() for line in text.split("\n"))


def test_examples(tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tarry").symlink_to(TARRY)
    with web_server(tmp_path / "store", "--test-clock", "--set", "clock.start=2027-01-01T00:00:00Z") as server:
        env = {key: value for key, value in os.environ.items() if not key.startswith("TARRY_")}
        env |= {"TARRY_SERVER": f"http://127.0.0.1:{web_port(server)}", "PATH": f"{tmp_path}/bin:{env['PATH']}"}
        shell = subprocess.Popen(["bash"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, env=env)
        try:
            steps = [step for _, steps in steps_of(DOC) for step in steps]
            assert len(steps) > 15
            for command, wanted in steps:
                said = run(shell, command)
                assert matches(trimmed(wanted), trimmed(said)), f"{command}\n{said}\nis not\n{wanted}"
            shell.stdin.close()
            assert shell.wait(PATIENCE_S) == 0
        finally:
            shell.kill()
            shell.wait()
            shell.stdout.close()
        assert server.stop() == 0
