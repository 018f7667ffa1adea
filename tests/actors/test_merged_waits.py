"""Waits for several futures at once, in the graph by itself: refused exactly when the waiter could never go on."""

from __future__ import annotations

import random
import time
import weakref
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.actors.threads.promise import Promise
from understudy.actors.waiting.awaited import Asked, Awaited, Merged
from understudy.actors.waiting.children import FirstChild
from understudy.actors.waiting.graph import WaitGraph
from understudy.actors.waiting.graph import graph as process_graph
from understudy.actors.waiting.waits import RaceWait
from understudy.errors import CircularAgentCall, RunError
from understudy.vocabulary.context.ancestry import MAX_DEPTH, Link, enter_ancestry, leave_ancestry
from understudy.vocabulary.context.scope import Scope


@dataclass(frozen=True, eq=False)
class Definition:
    id: str


@dataclass(eq=False)
class Whole:
    """A future of several, of which some have been heard of."""

    heard: set[int] = field(default_factory=set[int])

    def expects(self, place: int) -> bool:
        return place not in self.heard


def run(id: str, *begun_in: Link, runner: Definition | None = None) -> Link:
    token = enter_ancestry(begun_in)
    try:
        return Link(runner or Definition(id), id)
    finally:
        leave_ancestry(token)


def all_of(*members: Awaited) -> Merged:
    return Merged(Whole(), members, any_will_do=False)


def any_of(*members: Awaited, whole: Whole | None = None) -> Merged:
    return Merged(whole or Whole(), members, any_will_do=True)


@contextmanager
def refused() -> Generator[list[str]]:
    path: list[str] = []
    with pytest.raises(CircularAgentCall) as caught:
        yield path
    path.extend(caught.value.path)


# --- against the definition


@dataclass(frozen=True)
class Node:
    """One of the waiters, by number; `over` if what is waited for has come already."""

    number: int
    over: bool


@dataclass(frozen=True)
class Group:
    any_will_do: bool
    members: tuple[Node | Group | Race | None, ...]
    whole: Whole


@dataclass(eq=False)
class Race:
    """The children of a group of which one will do."""

    children: list[int] = field(default_factory=list[int])
    driven: bool = True


Tree = Node | Group | Race | None


def could_end(tree: Tree, stuck: set[int]) -> bool:
    """Whether a wait could end although those in `stuck` never do anything any more."""
    if tree is None:
        return True
    if isinstance(tree, Node):
        return tree.over or tree.number not in stuck
    if isinstance(tree, Race):
        return tree.driven or not tree.children or any(child not in stuck for child in tree.children)
    missing = [could_end(member, stuck) for place, member in enumerate(tree.members) if place not in tree.whole.heard]
    return any(missing) or not missing if tree.any_will_do else all(missing)


def is_hopeless(waiter: int, waits: list[tuple[int, Tree]]) -> bool:
    """Whether `waiter` belongs to some set of waiters that none of them can leave without another one of the set."""
    others = {number for number, _ in waits} - {waiter}
    for size in range(len(others) + 1):
        for chosen in combinations(sorted(others), size):
            closed = {waiter, *chosen}
            if all(any(n == number and not could_end(tree, closed) for n, tree in waits) for number in closed):
                return True
    return False


def trees(size: int) -> st.SearchStrategy[Tree]:
    # Few are over and few unknown, else hardly anything is ever refused.
    nodes = st.builds(Node, st.integers(0, size - 1), st.sampled_from([False] * 7 + [True]))
    leaves: st.SearchStrategy[Tree] = st.one_of(nodes, nodes, nodes, nodes, nodes, st.none())

    def grouped(members: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.builds(Group, st.booleans(), st.lists(members, max_size=4).map(tuple), st.builds(Whole))

    return st.one_of(nodes, st.recursive(leaves, grouped, max_leaves=6))


def groups_in(tree: Tree) -> list[Group]:
    if not isinstance(tree, Group):
        return []
    return [tree, *[group for member in tree.members for group in groups_in(member)]]


class Company:
    """The graph, and next to it what the definition is asked about."""

    def __init__(self, size: int) -> None:
        self.links = [run(str(number)) for number in range(size)]
        self.graph = WaitGraph()
        self.waits: list[tuple[int, Tree]] = []
        self.woken: list[tuple[int, Tree]] = []
        self.races: dict[int, tuple[Race, RaceWait]] = {}
        """By the number of the group."""
        self._stack = ExitStack()

    def awaited(self, tree: Tree) -> Awaited:
        match tree:
            case None:
                return None
            case Node(number=number, over=over):
                reply: Promise[object] = Promise()
                if over:
                    reply.set(None)
                return Asked(self.links[number], reply)
            case Race():
                raise AssertionError("nobody begins one whole")
            case Group(any_will_do=any_will_do, members=members, whole=whole):
                return Merged(whole, [self.awaited(member) for member in members], any_will_do=any_will_do)

    def begin(self, waiter: int, tree: Tree) -> bool:
        """Have a wait begin; whether it was refused."""
        wait = (waiter, tree)
        awaited = self.awaited(tree)
        try:
            self._stack.enter_context(
                self.graph.waiting((self.links[waiter],), awaited, lambda error: self.wake(wait, error))
            )
        except CircularAgentCall as error:
            self.check_path(waiter, error)
            return True
        self.waits.append(wait)
        return False

    def wake(self, wait: tuple[int, Tree], error: CircularAgentCall) -> None:
        self.check_path(wait[0], error)
        self.woken.append(wait)

    def check_path(self, waiter: int, error: CircularAgentCall) -> None:
        assert error.path[0] == error.path[-1] == str(waiter)
        assert len(error.path) > 1

    def end(self) -> None:
        self._stack.close()
        for group, (race, _) in self.races.items():
            for child in list(race.children):
                self.leave(group, child)
        assert len(self.graph) == 0

    def fail(self, group: Group, place: int) -> None:
        """Have a member of a group fail, and check who is woken: in order, whoever cannot go on any more."""
        group.whole.heard.add(place)
        before, self.woken = list(self.waits), []
        self.graph.tightened(group.whole)
        for wait in [wait for wait in before if group in groups_in(wait[1])]:
            hopeless = is_hopeless(wait[0], self.waits)
            assert (wait in self.woken) == hopeless
            if hopeless:
                self.waits.remove(wait)

    def race(self, group: int) -> tuple[Race, RaceWait]:
        if group not in self.races:
            self.races[group] = Race(), RaceWait(self.links[group], None)
            self.waits.append((group, self.races[group][0]))
        return self.races[group]

    def join(self, group: int, child: int) -> None:
        """Have a run that waits for nobody begin as a child of a group."""
        race, wait = self.race(group)
        race.driven = wait.race.driving.at_work = True
        race.children.append(child)
        self.graph.join(wait, self.links[child])

    def leave(self, group: int, child: int) -> None:
        """Have a child fail, and the group hear of it."""
        race, wait = self.race(group)
        race.driven = wait.race.driving.at_work = True
        race.children.remove(child)
        self.graph.leave(wait, self.links[child])

    def settle(self, group: int) -> None:
        """Have the group be done, as often as there is a child that has to fail."""
        race, wait = self.race(group)
        while True:
            race.driven = False
            hopeless = is_hopeless(group, self.waits)

            way = self.graph.settle(wait)

            assert bool(way) == hopeless
            if not way:
                return
            numbers = [self.links.index(link) for link in way]
            assert numbers[0] == numbers[-1] == group
            assert numbers[1] in race.children
            assert all(is_hopeless(number, self.waits) for number in numbers)
            self.leave(group, numbers[1])

    def could_join(self) -> list[tuple[int, int]]:
        """Return who may begin as whose child: whoever waits for nobody, and is nobody's child there yet."""
        size = range(len(self.links))
        new = [n for n in size if n not in {waiter for waiter, _ in self.waits}]
        taken = {(group, child) for group, (race, _) in self.races.items() for child in race.children}
        return [(g, n) for g in size for n in new if g != n and (g, n) not in taken]

    def could_leave(self) -> list[tuple[int, int]]:
        return [(group, child) for group, (race, _) in self.races.items() for child in race.children]

    def could_fail(self) -> list[tuple[Group, int]]:
        """Return the members without which there would be one way less to go on."""
        groups = [group for _, tree in self.waits for group in groups_in(tree) if group.any_will_do]
        return [(group, n) for group in groups for n in range(len(group.members)) if group.whole.expects(n)]


def go_through(size: int, steps: list[tuple[int, Tree]], which: Callable[[int], int], groups: int = 0) -> int:
    """Begin one wait after another, and now and then have a member fail; `which` chooses one of so many.

    Before each there are so many steps of groups that take the first answer. Returns how many waits were refused.
    """
    refused = 0
    company = Company(size)
    for waiter, tree in steps:
        for _ in range(groups):
            step_of_a_group(company, which)
        could_fail = company.could_fail()
        if could_fail and which(3) == 0:
            company.fail(*could_fail[which(len(could_fail))])

        hopeless = is_hopeless(waiter, [*company.waits, (waiter, tree)])

        assert company.begin(waiter, tree) == hopeless
        assert not any(is_hopeless(number, company.waits) for number in range(size))
        refused += hopeless
    company.end()
    return refused


def step_of_a_group(company: Company, which: Callable[[int], int]) -> None:
    """Have a child begin or fail, or a group be done; `which` chooses one of so many."""
    does = which(4)
    if does < 2 and (could_join := company.could_join()):
        company.join(*could_join[which(len(could_join))])
    elif does == 2 and (could_leave := company.could_leave()):
        company.leave(*could_leave[which(len(could_leave))])
    elif company.races:
        company.settle(list(company.races)[which(len(company.races))])


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_a_wait_is_refused_if_and_only_if_its_waiter_could_never_go_on(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 5), "size")
    steps = data.draw(st.lists(st.tuples(st.integers(0, size - 1), trees(size)), max_size=8), "steps")
    go_through(size, steps, lambda number: data.draw(st.integers(0, number - 1)))


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_a_group_of_which_the_first_counts_is_stuck_if_and_only_if_no_child_could_ever_end(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 5), "size")
    steps = data.draw(st.lists(st.tuples(st.integers(0, size - 1), trees(size)), max_size=8), "steps")
    go_through(size, steps, lambda number: data.draw(st.integers(0, number - 1)), groups=3)


@pytest.mark.parametrize("seed", range(6))
def test_groups_that_come_to_be_stuck_are_found_exactly_too(seed: int) -> None:
    chance, refused = random.Random(seed), 0
    for _ in range(40):
        size = chance.randint(3, 6)
        steps: list[tuple[int, Tree]] = [
            (chance.randrange(size), Node(chance.randrange(size), over=False)) for _ in range(10)
        ]
        refused += go_through(size, steps, chance.randrange, groups=chance.randint(1, 4))
    assert refused


@pytest.mark.parametrize("seed", range(3))
def test_many_races_between_few_are_refused_exactly_too(seed: int) -> None:
    chance, refused = random.Random(seed), 0

    def tree(size: int, depth: int) -> Tree:
        kind = chance.random()
        if depth == 0 or kind < 0.4:
            return None if kind > 0.95 else Node(chance.randrange(size), over=False)
        members = tuple([tree(size, depth - 1) for _ in range(chance.randint(1, 3))])
        return Group(chance.random() < 0.8, members, Whole())

    for _ in range(40):
        size = chance.randint(4, 6)
        steps = [(chance.randrange(size), tree(size, 2)) for _ in range(12)]
        refused += go_through(size, steps, chance.randrange)
    assert refused


# --- by example


def test_all_lead_back_if_one_does() -> None:
    graph, a, b, c = WaitGraph(), run("a"), run("b"), run("c")

    with graph.waiting((c,), a), refused() as path, graph.waiting((a,), all_of(b, c)):
        pass

    assert path == ["a", "c", "a"]
    assert len(graph) == 0


def test_any_lead_back_only_if_all_do() -> None:
    graph, a, b, c = WaitGraph(), run("a"), run("b"), run("c")

    with graph.waiting((c,), a):
        with graph.waiting((a,), any_of(b, c)):
            with refused() as path, graph.waiting((b,), c):
                pass
            assert path == ["b", "c", "a", "b"]
        with graph.waiting((b,), c), refused() as path, graph.waiting((a,), any_of(b, c)):
            pass
    assert path == ["a", "c", "a"]


def test_what_can_end_by_other_means_never_leads_back() -> None:
    graph, a, b = WaitGraph(), run("a"), run("b")

    with graph.waiting((b,), a):
        with graph.waiting((a,), any_of(b, None)):
            assert len(graph) == 2
        with refused() as path, graph.waiting((a,), all_of(None, b)):
            pass
    assert path == ["a", "b", "a"]


def test_the_path_keeps_to_those_who_hold_each_other_up() -> None:
    graph, a, b, c, d = WaitGraph(), run("a"), run("b"), run("c"), run("d")

    with (
        graph.waiting((d,), a),
        graph.waiting((b,), any_of(a, None)),  # leads back, but may go on
        graph.waiting((c,), d),
        refused() as path,
        graph.waiting((a,), all_of(b, c)),
    ):
        pass

    assert path == ["a", "c", "d", "a"]


def test_who_may_go_on_lets_others_go_on_wherever_they_stand() -> None:
    graph, a, b, c, d, e = WaitGraph(), run("a"), run("b"), run("c"), run("d"), run("e")

    with (
        graph.waiting((b,), any_of(d, a)),
        graph.waiting((c,), e),
        graph.waiting((e,), any_of(b, a)),
        graph.waiting((a,), all_of(b, c)),  # d ends, so b does, so e does, so c does
    ):
        assert len(graph) == 4


def test_an_actor_that_has_replied_holds_nobody_up_any_more() -> None:
    graph, a, b, reply = WaitGraph(), run("a"), run("b"), Promise[object]()

    with graph.waiting((a,), Asked(b, reply)):
        reply.set("here it is")  # a is about to wake
        with graph.waiting((b,), Asked(a, Promise())):
            assert len(graph) == 2


def test_a_member_that_is_over_but_was_not_heard_of_may_be_the_one() -> None:
    graph, a, b, c = WaitGraph(), run("a"), run("b"), run("c")
    c.over = True

    with graph.waiting((b,), a), graph.waiting((a,), any_of(b, c)):
        assert len(graph) == 2


def test_of_two_who_wait_for_the_same_only_one_is_refused_when_it_loses_its_way_out() -> None:
    graph, a, b, c, d, whole = WaitGraph(), run("a"), run("b"), run("c"), run("d"), Whole()
    woken: list[tuple[str, ...]] = []

    with (
        graph.waiting((c,), any_of(a, d)),
        graph.waiting((a,), any_of(b, c, whole=whole), lambda error: woken.append(error.path)),
        graph.waiting((d,), any_of(b, c, whole=whole), lambda error: woken.append(error.path)),
    ):
        whole.heard.add(0)
        graph.tightened(whole)

    assert woken == [("a", "c", "a")]


def test_to_wait_for_several_that_one_began_is_to_call_each() -> None:
    graph, again = WaitGraph(), Definition("a")
    a = run("1", runner=again)
    b, other = run("2", a), run("3", a, runner=again)

    with refused() as path, graph.waiting((a,), all_of(b, other)):
        pass
    assert path == ["a", "a"]

    with graph.waiting((a,), any_of(b, other)):  # b will do
        pass
    with refused(), graph.waiting((a,), any_of(other, run("4", a, runner=again))):
        pass


def test_a_recursion_has_an_end_where_another_one_will_do() -> None:
    graph, again = WaitGraph(), Definition("a")
    a = run("1", runner=again)
    b, c = run("2", a), run("3", a)

    with graph.waiting((a,), any_of(b, c)):
        graph.check((b,), again)
    with graph.waiting((a,), any_of(b, b)), refused():
        graph.check((b,), again)


def test_the_limit_of_depth_counts_those_who_might_go_on() -> None:
    graph = WaitGraph()
    links = [run("0")]
    while len(links) < MAX_DEPTH:
        links.append(run(str(len(links)), *links))

    with ExitStack() as waits:
        for above, below in pairwise(links):
            waits.enter_context(graph.waiting((above,), any_of(below, None)))
        with pytest.raises(RunError, match="32 deep"):
            graph.check((links[-1],), Definition("one more"))


def test_thousands_that_are_waited_for_at_once_are_looked_through() -> None:
    graph, a, many = WaitGraph(), run("a"), [run(str(number)) for number in range(1_000)]

    with ExitStack() as waits:
        for one in many[:-1]:
            waits.enter_context(graph.waiting((one,), a))
        waits.enter_context(graph.waiting((a,), any_of(*many)))
        with refused() as path, graph.waiting((many[-1],), a):
            pass

    assert path == ["999", "a", "999"]


# --- the first child of a group


@pytest.fixture
def group() -> Iterator[tuple[Link, FirstChild]]:
    """A group that waits in the graph of this process."""
    before = len(process_graph)
    link = run("g")
    yield link, FirstChild(link, Scope(None, time.monotonic))
    assert len(process_graph) == before


def test_a_group_that_is_driven_waits_for_nobody(group: tuple[Link, FirstChild]) -> None:
    link, children = group
    b = run("b", link)
    children.join(b)

    with process_graph.waiting((b,), link):  # another child may be about to begin
        assert [each.run_id for each in children.settle()] == ["g", "b", "g"]
        with process_graph.waiting((run("other"),), link):  # the group has something to do again
            children.leave(b)
            assert children.settle() == ()


def test_a_group_waits_for_nobody_as_soon_as_it_looks_again(group: tuple[Link, FirstChild]) -> None:
    link, children = group
    b = run("b", link)
    children.join(b)
    assert children.settle() == ()
    with refused() as path, process_graph.waiting((b,), link):
        pass
    assert path == ["b", "g", "b"]

    children.look()

    with process_graph.waiting((b,), link):
        pass
    children.leave(b)


def test_a_child_that_is_over_and_was_not_heard_of_may_be_the_winner(group: tuple[Link, FirstChild]) -> None:
    link, children = group
    b, c = run("b", link), run("c", link)
    children.join(b)
    children.join(c)
    c.over = True

    with process_graph.waiting((b,), link):
        assert children.settle() == ()
        children.leave(c)
        assert [each.run_id for each in children.settle()] == ["g", "b", "g"]
    children.leave(b)


def test_children_of_a_group_are_in_nobodys_way_once_they_left(group: tuple[Link, FirstChild]) -> None:
    link, children = group
    b, c = run("b", link), run("c", link)
    children.join(b)
    children.join(c)
    children.leave(b)
    assert children.settle() == ()

    with process_graph.waiting((b,), link), refused(), process_graph.waiting((c,), link):
        pass
    children.leave(c)


def test_of_two_groups_that_close_one_circle_only_one_is_told() -> None:
    links = [run("g-0"), run("g-1")]
    groups = [FirstChild(link, Scope(None, time.monotonic)) for link in links]
    children = [run("b-0", links[0]), run("b-1", links[1])]
    for first, child in zip(groups, children, strict=True):
        first.join(child)

    with process_graph.waiting((children[0],), links[1]), process_graph.waiting((children[1],), links[0]):
        ways = [first.settle() for first in (groups[0], groups[1], groups[0])]
        for first, child in zip(groups, children, strict=True):
            first.leave(child)

    assert [[link.run_id for link in way] for way in ways] == [[], ["g-1", "b-1", "g-0", "b-0", "g-1"], []]


def test_a_child_that_left_a_group_is_kept_by_nothing(group: tuple[Link, FirstChild]) -> None:
    link, children = group
    b, c = run("b", link), run("c", link)
    children.join(b)
    children.join(c)
    gone = weakref.ref(b.runner)

    children.leave(b)
    del b

    assert gone() is None
    children.leave(c)
