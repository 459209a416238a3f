"""tarry sql: the tables in a real MariaDB, and what is said when something is in the way."""
import json
import os
import subprocess

import pytest

from harness import PATIENCE_S, TARRY, tarry
from mariadb_server import Server
from ports import free_port


@pytest.fixture(scope="module")
def maria():
    with Server() as server:
        yield server


def sql(command, maria, name, *args, env=None, password="word", port=None):
    """tarry sql, as the user `name` of the database `name`."""
    env = {**os.environ, "TARRY_SQL_PASSWORD": password, **(env or {})}
    return subprocess.run([TARRY, "sql", command, "--set", f"sql.url=mariadb://127.0.0.1:{port or maria.port}/{name}",
                           "--set", f"sql.user={name}", *args], capture_output=True, text=True, env=env,
                          timeout=PATIENCE_S)


def refused(done, *words, code=1):
    assert (done.returncode, done.stdout) == (code, ""), done
    for word in words:
        assert word in done.stderr, done.stderr
    assert "word" not in done.stderr.replace("password", ""), "the password is told"


TABLES = ["cnt", "flow", "job", "job_key", "lane", "meta", "node", "schedule", "slot", "topic"]


def test_migrate_check_and_again(maria):
    name = maria.database()
    refused(sql("check", maria, name), "there are no tables of tarry", "tarry sql migrate")
    done = sql("migrate", maria, name)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{name} at 127.0.0.1:{maria.port}: schema 2 is made (it was 0)\n"
    assert maria.ask("SHOW TABLES", name).split() == TABLES
    assert maria.ask("SELECT v FROM meta WHERE k = 'schema'", name) == "2\n"
    assert maria.ask("SELECT DISTINCT engine, table_collation FROM information_schema.tables "
                     f"WHERE table_schema = '{name}'").split() == ["InnoDB", "binary"]
    maria.ask("INSERT INTO job (id, topic_id, body) VALUES (7, 1, 'kept')", name)
    for command, said in (("migrate", "schema 2 is there already"), ("check", "MariaDB")):
        done = sql(command, maria, name)
        assert (done.returncode, done.stderr) == (0, ""), done
        assert said in done.stdout
    told = json.loads(sql("check", maria, name, "--json").stdout)
    assert told == {"ok": True, "place": f"{name} at 127.0.0.1:{maria.port}", "schema": 2, "server": told["server"],
                    "warnings": []} and "MariaDB" in told["server"]
    told = json.loads(sql("migrate", maria, name, "--json").stdout)
    assert (told["ok"], told["schema"], told["was"], told["steps"]) == (True, 2, 2, 0)
    assert maria.ask("SELECT id, body FROM job", name) == "7\tkept\n"


def test_migrate_goes_on_where_it_was_cut_off(maria):
    """Each CREATE is committed on its own: half of them may be there."""
    name = maria.database()
    assert sql("migrate", maria, name).returncode == 0
    maria.ask("DELETE FROM meta; DROP TABLE flow; DROP TABLE node", name)
    maria.ask("INSERT INTO topic (name, policy) VALUES ('t', '')", name)
    refused(sql("check", maria, name), "there are no tables")
    assert sql("migrate", maria, name).returncode == 0
    assert maria.ask("SHOW TABLES", name).split() == TABLES
    assert maria.ask("SELECT name FROM topic", name) == "t\n"


def test_two_at_once(maria):
    name = maria.database()
    env = {**os.environ, "TARRY_SQL_URL": f"mariadb://127.0.0.1:{maria.port}/{name}", "TARRY_SQL_USER": name,
           "TARRY_SQL_PASSWORD": "word"}
    both = [subprocess.Popen([TARRY, "sql", "migrate"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            for _ in range(4)]
    said = [process.communicate(timeout=PATIENCE_S) for process in both]
    assert [process.returncode for process in both] == [0] * 4, said
    assert sum(b"is made" in out for out, _ in said) == 1


def test_printed_statements_do_the_same(maria):
    name, other = maria.database(), maria.database()
    done = tarry("sql", "migrate", "--print")
    assert (done.returncode, done.stderr) == (0, "")
    for _ in range(2):
        maria.ask(done.stdout, other)
    assert sql("migrate", maria, name).returncode == 0
    assert sql("check", maria, other).returncode == 0
    dump = [maria.ask(f"SHOW CREATE TABLE {table}", where) for where in (name, other) for table in TABLES]
    assert dump[:len(TABLES)] == dump[len(TABLES):]


def test_newer_schema_is_refused_and_left_alone(maria):
    name = maria.database()
    assert sql("migrate", maria, name).returncode == 0
    maria.ask("UPDATE meta SET v = '12'", name)
    for command in ("migrate", "check"):
        refused(sql(command, maria, name), "schema 12", "a newer tarry", "knows schema 2", code=3)
    assert maria.ask("SELECT v FROM meta", name) == "12\n"
    maria.ask(tarry("sql", "migrate", "--print").stdout, name)
    assert maria.ask("SELECT v FROM meta", name) == "12\n"


def test_somebody_elses_tables(maria):
    name = maria.database()
    maria.ask("CREATE TABLE job (id INT, title TEXT)", name)
    refused(sql("migrate", maria, name), "its table job has no column slot", "a database of its own")


@pytest.mark.parametrize("right", ["CREATE", "INSERT", "SELECT", "UPDATE", "DELETE"])
def test_missing_right_is_named(maria, right):
    rights = [each for each in ("SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "INDEX")
              if each != right]
    name = maria.database(", ".join(rights))
    if right != "CREATE":
        maria.ask(tarry("sql", "migrate", "--print").stdout, name)
    refused(sql("migrate" if right == "CREATE" else "check", maria, name), f"GRANT {right} ON `{name}`.* TO {name}")


def test_what_is_in_the_way(maria):
    name = maria.database()
    refused(sql("migrate", maria, name, password="wrong"), "does not let this user in", "sql.password")
    refused(sql("migrate", maria, name, port=free_port()), "cannot be reached", "sql.url")
    stranger = maria.database(rights=None)
    refused(sql("migrate", maria, stranger), "may not use", f"ON `{stranger}`.*")
    maria.ask("DROP DATABASE " + name)
    refused(sql("migrate", maria, name), "there is no database", "CREATE DATABASE")


def test_settings_that_lose_jobs_are_told(maria):
    name = maria.database()
    maria.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
    done = sql("migrate", maria, name)
    maria.ask("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    assert done.returncode == 0 and "warning: innodb_flush_log_at_trx_commit is not 1" in done.stderr


def test_read_only_and_small_packets(maria):
    name = maria.database()
    assert sql("migrate", maria, name).returncode == 0
    maria.ask("SET GLOBAL read_only = ON")
    try:
        refused(sql("migrate", maria, name), "read-only", "name the primary")
        refused(sql("check", maria, name), "read-only")
    finally:
        maria.ask("SET GLOBAL read_only = OFF")
    maria.ask("SET GLOBAL max_allowed_packet = 1048576")
    try:
        refused(sql("check", maria, name), "max_allowed_packet is 1048576", "2097152")
    finally:
        maria.ask("SET GLOBAL max_allowed_packet = 16777216")


def test_by_the_socket_and_from_a_file(maria, tmp_path):
    name = maria.database()
    maria.ask(f"CREATE USER {name}@localhost IDENTIFIED BY 'word'; GRANT ALL ON {name}.* TO {name}@localhost")
    conf = tmp_path / "tarry.conf"
    conf.write_text(f"[sql]\nurl = mariadb:///{name}?socket={maria.path}\nuser = {name}\npassword = word\n")
    done = tarry("sql", "migrate", "--config", str(conf))
    assert (done.returncode, done.stdout) == (0, f"{name} at {maria.path}: schema 2 is made (it was 0)\n"), done
    assert tarry("sql", "check", f"--config={conf}").returncode == 0


def test_wrong_usage(tmp_path):
    for args in ([], ["frobnicate"], ["migrate", "now"], ["check", "--print"], ["migrate", "--set"],
                 ["migrate", "--set", "sql.url=mysql://u:p@h/d"], ["migrate", "--set", "sql.url=h"],
                 ["migrate", "--set", "sql.connections=65"], ["migrate", "--config", str(tmp_path / "none")],
                 ["migrate"]):
        done = tarry("sql", *args)
        assert (done.returncode, done.stdout) == (2, ""), (args, done)
        assert done.stderr.startswith("tarry: ") and "\nTry: tarry" in done.stderr
    assert "say sql.user" in tarry("sql", "migrate", "--set", "sql.url=mysql://u:p@h/d").stderr
    for args in (["sql", "--help"], ["help", "sql"], ["sql", "migrate", "--help"]):
        assert tarry(*args).stdout.startswith("usage: tarry sql migrate")
