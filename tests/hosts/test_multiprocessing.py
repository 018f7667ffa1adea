"""The agent in the pools of `multiprocessing`."""

from __future__ import annotations

import copy
import multiprocessing
import pickle

import pytest

import understudy as us

from .clerk import clerk, double
from .processes import output

METHODS = [method for method in ("fork", "spawn") if method in multiprocessing.get_all_start_methods()]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("method", METHODS)
def test_the_workers_of_a_pool_use_the_agent_while_the_parent_does(method: str) -> None:
    out = output(f"""
        import multiprocessing, os
        from tests.hosts.clerk import work

        if __name__ == "__main__":
            work(1)
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                pending = pool.map_async(work, range(20))
                own = work(7)
                answers = pending.get(20)
            assert own == (14, os.getpid())
            assert [doubled for doubled, _ in answers] == [2 * number for number in range(20)]
            assert os.getpid() not in {{pid for _, pid in answers}}
            print("all")
    """)

    assert out == "all\n"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("method", METHODS)
def test_a_tool_is_handed_to_a_worker_by_its_name(method: str) -> None:
    out = output(f"""
        import multiprocessing
        from tests.hosts.clerk import double, process

        if __name__ == "__main__":
            with multiprocessing.get_context({method!r}).Pool(1) as pool:
                assert pool.apply_async(repr, [double]).get(20) == "Tool('double')"
                same, other = pool.map_async(tuple, [[double, process]]).get(20)[0]
            print(same is double, other is process)
    """)

    assert out == "True True\n"


def test_a_pickled_tool_is_its_qualified_name() -> None:
    data = pickle.dumps(double)

    assert b"tests.hosts.clerk" in data
    assert pickle.loads(data) is double


def test_what_lives_in_one_process_cannot_be_pickled() -> None:
    with us.ActorSystem("here") as system:
        actor: us.ActorRef[object] = system.spawn(us.Actor)
        alive: list[object] = [system, actor, clerk.submit("1", system=system)]
        for one in alive:
            with pytest.raises((TypeError, AttributeError)):
                pickle.dumps(one)


@pytest.mark.parametrize("runner", [clerk, us.SequentialAgent("all", [clerk])], ids=["agent", "group"])
def test_a_runner_is_its_own_copy_and_is_not_pickled(runner: us.Agent | us.SequentialAgent) -> None:
    assert copy.copy(runner) is runner
    assert copy.deepcopy({"who": runner})["who"] is runner
    with pytest.raises(TypeError, match=f"{runner.id}' is not pickled: make it at module level"):
        pickle.dumps(runner)
