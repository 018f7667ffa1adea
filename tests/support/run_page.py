"""`python run_page.py PAGE.md`: run the Python blocks of a page one after another, as a reader who copies them does.

The blocks share their names, so that a page's first block can define what the others use. Where a `text` block follows, it is what the
block before it must have printed. A block whose first line is a comment with a file's name (`# shop.yaml`) is that file, in the current
folder. Exit status 0 if every block ran, else 1 after the traceback.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

NAMED = re.compile(r"# ([\w/]+\.(?:py|yaml|txt|json))\n")
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block of a page."""

    line: int
    """The number of its first line in the page."""
    code: str
    printed: str | None
    """The expected output, from the text block right after the code; None if there is none."""
    file: str | None
    """The file that the block shows; None for a block to run."""


def blocks_of(page: str) -> Iterator[Block]:
    """Return the blocks of a page that are Python code or files, in order."""
    found = list(FENCED.finditer(page))
    for position, block in enumerate(found):
        following = found[position + 1] if position + 1 < len(found) else None
        named = NAMED.match(block[2])
        if block[1] != "python" and named is None:
            continue
        follows = following is not None and page[block.end() : following.start()].strip() == ""
        printed = following[2] if following is not None and follows and following[1] == "text" else None
        line = page.count("\n", 0, block.start(2)) + 1
        yield Block(line, block[2], printed, None if named is None else named[1])


def run(block: Block, path: Path, names: dict[str, object]) -> None:
    """Run one block, or write it if it is a file; tracebacks have the page's own line numbers.

    Raises:
        AssertionError: it printed something else than the page says.
    """
    if block.file is not None:
        Path(block.file).parent.mkdir(parents=True, exist_ok=True)
        Path(block.file).write_text(block.code)
        return
    code = compile("\n" * (block.line - 1) + block.code, str(path), "exec")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, names)  # noqa: S102 (it is our own page)
    if block.printed is not None and out.getvalue() != block.printed:
        raise AssertionError(f"printed {out.getvalue()!r}, and the page says {block.printed!r}")


def main(path: Path) -> int:
    sys.path.insert(0, "")  # the files that the page has made can be imported
    module = ModuleType("__main__")  # classes of the page look names up in the module they say they are of
    sys.modules["__main__"] = module
    for block in blocks_of(path.read_text()):
        try:
            run(block, path, module.__dict__)
        except BaseException:  # noqa: BLE001 (whatever a page does is told)
            traceback.print_exc()
            print(f"{path}: the block at line {block.line} failed", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
