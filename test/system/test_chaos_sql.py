"""Chaos with a database, in short: it and Redis fail under load, and nothing is excused. See test_chaos.py."""
from test_chaos import chaos


def test_faults(tmp_path):
    faults = ["kill-sql", "flushall", "kill-node", "pause-sql"]
    status, report = chaos(tmp_path, "--sql", "--seed", "1", "--longest", "2", "--faults", ",".join(faults))
    assert status == 0, report
    assert [f["name"] for f in report["faults"]] == faults
    killed, emptied, _, _ = report["faults"]
    assert killed["pids"][0] != killed["pids"][1]
    assert emptied["keys"] > 0 and emptied["slots_lost"][1] > 0
    assert report["undo"] == [] and report["calls"]["push ok"] > 50 and report["calls"]["ack ok"] > 50


def test_success_before_the_commit_is_noticed(tmp_path):
    status, report = chaos(tmp_path, "--sql", "--seed", "1", "--nodes", "2", "--faults", "forget-scripts", "--mutant",
                           "reply-before-commit")
    assert status == 1
    assert "lost" in {kind for kind, _ in report["wrong"]}
