"""The agent in a parent that forks workers, as Celery does, and goes on itself."""

from __future__ import annotations

import os

import pytest

from .processes import check

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    pytest.mark.timeout(60),
]


def test_parent_and_forked_workers_use_one_agent_at_the_same_time() -> None:
    check("""
        import os
        from tests.hosts.clerk import work

        work(1)
        workers = []
        for number in range(4):
            (jobs, give), (results, reply) = os.pipe(), os.pipe()
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    os.close(give)
                    for _, (_, other, _) in workers:
                        os.close(other)  # or its worker would never hear of the end of its jobs
                    with open(jobs) as orders, open(reply, "w") as answers:
                        for line in orders:
                            print(*work(int(line)), file=answers, flush=True)
                    status = 0
                finally:
                    os._exit(status)
            os.close(jobs), os.close(reply)
            workers.append((pid, (number, give, results)))

        for _, (number, give, _) in workers:
            with open(give, "w", closefd=False) as orders:
                print(*range(10 * number, 10 * number + 10), sep="\\n", file=orders)
        assert [work(number) for number in range(20)] == [(2 * number, os.getpid()) for number in range(20)]
        for pid, (number, give, results) in workers:
            os.close(give)
            with open(results) as answers:
                expected = [f"{2 * job} {pid}" for job in range(10 * number, 10 * number + 10)]
                assert answers.read().splitlines() == expected
            assert os.waitpid(pid, 0)[1] == 0
        assert work(3) == (6, os.getpid())
    """)


def test_grandchildren_use_the_agent_too() -> None:
    check("""
        import os
        from tests.hosts.clerk import work

        def descend(depth):
            assert work(depth) == (2 * depth, os.getpid())
            if depth < 3:
                pid = os.fork()
                if pid == 0:
                    try:
                        descend(depth + 1)
                        os._exit(0)
                    finally:
                        os._exit(1)
                assert os.waitpid(pid, 0)[1] == 0
            assert work(depth) == (2 * depth, os.getpid())

        descend(0)
    """)
