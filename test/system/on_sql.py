"""tarry on a redis-server and a mariadbd: `--engine redis` with sql.url."""
from harness import tarry
from mariadb_server import Server
from on_redis import OnServers, Redis


class Both:
    """A running redis-server and a running mariadbd. Use with `with`: they are gone afterwards."""

    def __init__(self, *flags, maria=None):
        self.redis = Redis(*flags)
        self.maria = maria or Server()

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


def database_of(flags):
    """The name of the database that flags are of."""
    return next(flag for flag in flags if flag.startswith("sql.user=")).partition("=")[2]


class OnSql(OnServers):
    """A tarry with an empty store and a beanstalk port, for dialogues."""
    engine = "sql"
    settles_s = 60  # a job goes back by a transaction of its own

    def __init__(self, both, *flags):
        super().__init__(*both.tarry(), *flags)
