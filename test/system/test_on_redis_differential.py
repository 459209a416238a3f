"""`--engine redis` beside beanstalkd: random talk to both must get the same replies. See test_differential.py.

One slot, so that jobs have one order; and a moment's wait before each look at who waits, for a wake-up goes
through Redis. Only a few sequences, in which nothing happens by time and no tube goes and comes again: its
totals and pause are those of before then (doc/engines.md). DIFF_SEEDS="1 2 3" for others.
"""
import concurrent.futures
import os
import time

from on_redis import OnRedis
from test_differential import Beanstalkd, Slow, Talk, needs_beanstalkd

SEEDS = [int(seed) for seed in os.environ.get("DIFF_SEEDS", "1 2 3 5 6").split()]


class PatientTalk(Talk):
    def wake(self, late):
        if late or self.waiting and self.changed:
            time.sleep(0.05)
            late = late or 4  # on a slow machine that was not enough: it is looked at again
        super().wake(late)


def run(seed, redis):
    """False: the machine was too slow."""
    with Beanstalkd() as one, OnRedis(redis, "--set", "cluster.slots=1") as two:
        talk = PatientTalk(seed, one, two)
        try:
            talk.run()
        except Slow:
            return False
        except Exception as error:
            error.args = (f"seed {seed}\n" + "\n".join(talk.log) + f"\n{error}",)
            raise
        finally:
            for side in talk.sides:
                side.close()
    return True


@needs_beanstalkd
def test_tarry_on_redis_says_what_beanstalkd_says(redis):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda seed: run(seed, redis), SEEDS))
    assert done.count(True) > done.count(False)
