"""Runners to draw, with names that are syntax somewhere, and pictures in a form that can be compared."""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator

from hypothesis import strategies as st

from understudy import Agent, ParallelAgent, SequentialAgent, SubAgent, Task, Workflow, tool
from understudy.orchestration.definitions.checks import ID
from understudy.orchestration.definitions.runner import Runner
from understudy.specs.drawing.layout import Box, Part, Picture
from understudy.vocabulary.tools.definition import ToolLike

WORDS = [
    "end",
    "graph",
    "subgraph",
    "click",
    "default",
    "class",
    "style",
    "node",
    "strict",
    "o",
    "x",
    "n1",
    "cluster_n1",
]
"""Words with a meaning in Mermaid or DOT, or used by the pictures themselves."""
SYNTAX = [
    *WORDS,
    "<script>alert(1)</script>",
    "</b>",
    "]]>",
    "--> n2",
    '"',
    "'",
    "`",
    '"]; n2[',
    "\\",
    "\\N\\G\\L",
    "&amp;",
    "&#0;",
    "#35;",
    "#quot;",
    "%%{init: {}}%%",
    "1. one",
    "- two",
    "**__bold__**",
    "www.example.org",
    "https://example.org",
    "$$x$$",
    "fa:fa-car",
    "@{ shape: rect }",
    "\t",
    "\r",
    "\x00",
    "\x1b[31m",
    "\ud800",
    "\uffff",
    "\u2028",
    "\u202e",
    "日本",
    "👩\u200d🚀",
]

texts = st.lists(st.one_of(st.sampled_from(SYNTAX), st.text(max_size=5)), min_size=1, max_size=4).map("".join)
ids = texts.filter(lambda text: ID.fullmatch(text) is not None)
task_names = st.one_of(st.sampled_from(WORDS), st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,9}", fullmatch=True))


@tool
def look(what: str) -> str:
    """Look something up."""
    return what


@tool(approval=True)
def pay(cents: int) -> str:
    """Pay."""
    return str(cents)


@st.composite
def agents(draw: st.DrawFn, inner: st.SearchStrategy[Runner[object]] | None = None) -> Runner[object]:
    """An agent with tools, and with sub-agents if there is something that could be one."""
    below = draw(st.lists(inner, max_size=2)) if inner is not None else []
    names = ["end", draw(st.sampled_from(["__a__", "o"]))]
    subs = [SubAgent(runner, name=name) for runner, name in zip(below, names, strict=False)]
    tools: list[ToolLike] = [look, pay]
    return Agent(draw(ids), model="rehearsal", tools=tools[: draw(st.integers(0, 2))], sub_agents=subs)


@st.composite
def workflows(draw: st.DrawFn, inner: st.SearchStrategy[Runner[object]]) -> Runner[object]:
    """A workflow whose tasks depend on any earlier tasks."""
    names = draw(st.lists(task_names, min_size=1, max_size=4, unique=True))
    tasks = [
        Task(
            name,
            draw(inner),
            dependencies=draw(st.lists(st.sampled_from(names[:position]))) if position else [],
            when=draw(st.none() | texts.map(lambda text: f"${{input}} == '{text.replace(chr(39), '')}'")),
        )
        for position, name in enumerate(names)
        if name not in ("input", "item", "previous")
    ]
    kept = {task.name for task in tasks}
    for task in tasks:
        task.dependencies = tuple([name for name in task.dependencies if name in kept])
    return Workflow(draw(ids), tasks or [Task("only", draw(inner))])


def _around(inner: st.SearchStrategy[Runner[object]]) -> st.SearchStrategy[Runner[object]]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        agents(inner),
        st.builds(SequentialAgent, ids, some, pass_output=st.sampled_from([False, True, "combined"])),
        st.builds(ParallelAgent, ids, some, merge=st.sampled_from(["first", "collect_all"])),
        workflows(inner),
    )


def everything() -> Runner[object]:
    """Agents named with each mark there is, and with each piece of syntax, alone and between others."""
    named = [*string.punctuation, *[f"a {text} b" for text in [*string.punctuation, *SYNTAX]]]
    return ParallelAgent("]", [Agent(each, model="rehearsal") for each in named])


runners: st.SearchStrategy[Runner[object]] = st.recursive(agents(), _around, max_leaves=6)


def all_parts(parts: Iterable[Part]) -> Iterator[Part]:
    """Iterate over parts and the parts inside them."""
    for part in parts:
        yield part
        if isinstance(part, Box):
            yield from all_parts(part.parts)


def squeezed(text: str) -> str:
    """Return a text with runs of spaces as one: the languages do not tell them apart."""
    return " ".join(text.split())


def nodes_of(picture: Picture) -> dict[str, list[str]]:
    """Return each node's key and lines."""
    return {p.key: _lines(p) for p in all_parts(picture.parts) if not isinstance(p, Box)}


def boxes_of(picture: Picture) -> dict[str, list[str]]:
    """Return each box's key and lines."""
    return {p.key: _lines(p) for p in all_parts(picture.parts) if isinstance(p, Box)}


def nesting_of(picture: Picture) -> dict[str, set[str]]:
    """Return each box's key and the keys of its direct parts."""
    return {p.key: {inner.key for inner in p.parts} for p in all_parts(picture.parts) if isinstance(p, Box)}


def _lines(part: Part) -> list[str]:
    return [squeezed(line) for line in (part.title, *part.notes) if line]
