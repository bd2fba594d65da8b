"""Workers that hang, die and talk nonsense: every job gets its outcome, and the budget is kept.

A small program stands in for the worker. Whether the budget is kept is read off the number of kills, each of which
takes at least the time of a job; no test looks at a clock.
"""

import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from grpo.qwen3.math_pool import FAILED_STARTS_ALLOWED, Outcome, WorkerPool

# A job is {"do": what, "with": value}.
WORKER = r"""
import json, os, sys, time
def say(**message):
    print(json.dumps(message), flush=True)
say(ready=True)
for line in sys.stdin:
    job = json.loads(line)
    if job["do"] == "echo":
        say(value=job["with"], pid=os.getpid(), seconds=job["seconds"])
    elif job["do"] == "hang":
        time.sleep(1000)
    elif job["do"] == "die":
        os._exit(3)
    elif job["do"] == "nonsense":
        print(job["with"], flush=True)
"""


def echo(value):
    return {"do": "echo", "with": value}


HANG, DIE = {"do": "hang"}, {"do": "die"}


@pytest.fixture
def make_pool():
    pools = []

    def make(code=WORKER, workers=1, seconds_per_job=30.0, seconds_per_batch=60.0, **options):
        pools.append(
            WorkerPool([sys.executable, "-S", "-c", code], workers, seconds_per_job, seconds_per_batch, **options)
        )
        return pools[-1]

    yield make
    for pool in pools:
        pool.close()


def values(outcomes):
    return [outcome.reply["value"] if outcome.reply else outcome.trouble for outcome in outcomes]


def test_outcomes_in_the_order_of_the_jobs_and_workers_started_once(make_pool):
    pool = make_pool(workers=2, seconds_per_job=12.5)
    assert values(pool.run([echo(i) for i in range(40)])) == list(range(40))
    again = pool.run([echo("x"), echo("y")])
    assert values(again) == ["x", "y"] and again[0].reply["seconds"] == 12.5
    assert (pool.starts, pool.kills, pool.deaths) == (2, 0, 0)
    assert pool.run([]) == []


def test_a_hanging_job_costs_its_worker_and_nothing_else(make_pool):
    pool = make_pool(seconds_per_job=2.0)
    pool.start()
    assert values(pool.run([echo(1), HANG, echo(2)])) == [1, "timeout", 2]
    assert (pool.starts, pool.kills, pool.deaths) == (2, 1, 0)


@pytest.mark.parametrize(
    "job",
    [DIE, *({"do": "nonsense", "with": text} for text in ("not json", "[1, 2]", '{"fatal": "?"}', ""))],
    ids=["dies", "no json", "a list", "fatal", "an empty line"],
)
def test_a_worker_that_dies_or_talks_nonsense_is_replaced(make_pool, job):
    pool = make_pool()
    assert values(pool.run([echo(1), job, echo(2)])) == [1, "worker died", 2]
    assert (pool.starts, pool.kills, pool.deaths) == (2, 0, 1)


def test_the_batch_budget_bounds_the_kills(make_pool):
    pool = make_pool(workers=2, seconds_per_job=0.2, seconds_per_batch=1.0)
    pool.start()
    outcomes = pool.run([HANG] * 64)
    assert {outcome.trouble for outcome in outcomes} == {"timeout", "batch budget"}
    # 2 workers, 1.0 / 0.2 rounds, and at the end those that have a job.
    assert pool.kills <= 2 * 5 + 2
    pool.seconds_per_job = pool.seconds_per_batch = 60.0
    assert values(pool.run([echo(1)])) == [1]


def test_no_reply_to_an_old_job_is_taken_for_a_new_one(make_pool):
    slow = WORKER.replace("time.sleep(1000)", "time.sleep(0.6); say(value='late')")
    pool = make_pool(slow, seconds_per_batch=0.3)
    pool.start()
    assert values(pool.run([HANG])) == ["batch budget"]
    pool.seconds_per_batch = 60.0
    time.sleep(0.6)
    assert values(pool.run([echo(1), echo(2)])) == [1, 2]


def test_a_batch_that_is_interrupted_leaves_nothing_behind(make_pool, monkeypatch):
    pool = make_pool()
    pool.start()

    def interrupted(batch_due):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pool, "_next_event", interrupted)
        with pytest.raises(KeyboardInterrupt):
            pool.run([echo("old")])
    assert values(pool.run([echo("new")])) == ["new"]


def test_a_worker_that_died_between_two_batches_costs_no_job(make_pool):
    pool = make_pool()
    first = pool.run([echo(1)])[0].reply["pid"]
    pool._workers[0].process.kill()
    pool._workers[0].process.wait()
    outcome = pool.run([echo(2)])[0]
    assert outcome.reply["value"] == 2 and outcome.reply["pid"] != first


def test_a_worker_whose_pipe_breaks_hands_the_job_back(make_pool):
    pool = make_pool()
    pool.start()
    worker = pool._workers[0]

    class Broken:
        def write(self, line):
            worker.process.kill()
            raise BrokenPipeError

        def close(self):
            raise BrokenPipeError

    pipe, worker.process.stdin = worker.process.stdin, Broken()
    assert values(pool.run([echo(1)])) == [1]
    pipe.close()


def test_what_has_arrived_counts_however_late_it_is_looked_at(make_pool):
    # A laptop that slept between two batches: the second worker has long been ready, nobody has looked.
    pool = make_pool(workers=2)
    pool.start()
    while pool._events.empty():
        time.sleep(0.01)
    pool._clock = lambda: time.monotonic() + 1e6
    assert values(pool.run([echo(1), echo(2)])) == [1, 2]
    assert (pool.starts, pool.kills) == (2, 0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ('print(\'{"fatal": "no such module"}\', flush=True)', "no such module"),
        ("pass", "without a word"),
        ("import time; time.sleep(1000)", "not ready in time"),
    ],
)
def test_a_pool_that_cannot_start_says_why(make_pool, code, said):
    pool = make_pool(code, seconds_to_start=0.3)
    with pytest.raises(RuntimeError, match=said):
        pool.start()
    assert pool.starts == FAILED_STARTS_ALLOWED


def test_a_program_that_does_not_exist(make_pool):
    pool = make_pool()
    pool.command = ["no such program"]
    with pytest.raises(RuntimeError, match="no worker could be started with no such program: "):
        pool.start()
    assert values(pool.run([echo(1)])) == ["no worker"]


def test_a_pool_that_cannot_start_again_does_not_hang(make_pool, tmp_path):
    once = tmp_path / "once"
    code = f"import os; os.mkdir({str(once)!r})\n" + WORKER  # fails the second time
    pool = make_pool(code)
    assert values(pool.run([echo(1), DIE, echo(2), echo(3)])) == [1, "worker died", "no worker", "no worker"]
    os.rmdir(once)
    assert values(pool.run([echo(4)])) == [4]


def test_close_ends_the_processes_and_a_later_batch_starts_new_ones(make_pool):
    pool = make_pool(workers=2)
    pool.start()
    processes = [worker.process for worker in pool._workers]
    pool.close()
    assert all(process.returncode is not None for process in processes)
    assert values(pool.run([echo(1)])) == [1]


def test_a_forgotten_pool_ends_its_processes(make_pool):
    pool = WorkerPool([sys.executable, "-S", "-c", WORKER], 1, 5.0, 5.0)
    pool.start()
    process = pool._workers[0].process
    del pool
    process.wait(timeout=30)


def test_two_threads_take_turns(make_pool):
    pool = make_pool(workers=2)
    got = SimpleNamespace(a=None, b=None)

    def work(name):
        setattr(got, name, values(pool.run([echo(f"{name}{i}") for i in range(20)])))

    threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got.a == [f"a{i}" for i in range(20)] and got.b == [f"b{i}" for i in range(20)]


@pytest.mark.parametrize("wrong", [{"workers": 0}, {"seconds_per_job": 0}, {"seconds_per_batch": float("nan")}])
def test_budgets_are_checked(make_pool, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        make_pool(**wrong)


def test_outcome_holds_a_reply_or_a_trouble():
    assert Outcome(reply={"value": 1}).trouble is None and Outcome(trouble="timeout").reply is None
