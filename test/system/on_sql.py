"""tarry on a redis-server and a mariadbd: `--engine redis` with sql.url."""
from beanstalk import Tarry
from harness import tarry
from mariadb_server import Server
from on_redis import Redis


class Both:
    """A running redis-server and a running mariadbd. Use with `with`: they are gone afterwards."""

    def __init__(self, *flags):
        self.redis = Redis(*flags)
        self.maria = Server()

    def database(self, rights="ALL"):
        """Flags of a new database with the tables of tarry."""
        name = self.maria.database(rights)
        flags = ["--set", f"sql.url=mariadb://127.0.0.1:{self.maria.port}/{name}", "--set", f"sql.user={name}",
                 "--set", "sql.password=word"]
        made = tarry("sql", "migrate", *flags)
        assert made.returncode == 0, made
        return flags

    def tarry(self):
        """Flags of a tarry on both, with an empty store."""
        return [*self.redis.tarry(), *self.database()]

    def __enter__(self):
        self.redis.start()
        self.maria.start()
        return self

    def __exit__(self, *what):
        self.redis.__exit__(*what)
        self.maria.__exit__(*what)


class OnSql(Tarry):
    """A tarry with an empty store and a beanstalk port, for dialogues."""
    # Of the node, since its start, and not of the tube; leases that ran out may be found by others.
    unlike = {"job-timeouts", "total-jobs"}

    def __init__(self, both, *flags):
        super().__init__(*both.tarry(), *flags)
