"""Files that a spec is made of: the spec, what it includes, and its prompts. All stay inside of the spec's folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path

from understudy.errors import SpecError

from .document import MAX_BYTES, MAX_VALUES, Document, NotUtf8, decode, read_document
from .located import LocatedValue
from .problems import Problem, did_you_mean, spec_error

TEXT = "<text>"
MAX_FILES = 1_000


class Sources:
    """The documents of a spec, in the order in which they are read, and the files that they name.

    Args:
        documents: the first is the spec, and the others are what it includes.
        root: the folder that no file may lead out of; None for a spec that is no file and names none.
    """

    def __init__(self, documents: list[Document], root: Path | None) -> None:
        self.documents = documents
        self._root = root
        self._prompts: dict[Path, str] = {}

    def prompt(self, spot: LocatedValue) -> str | Problem:
        """Return the text of the prompt file that `spot` names, or why there is none."""
        name = spot.text or ""
        if self._root is None:
            return spot.problem("a spec that is no file has no folder to read prompts from; write the text here")
        found = inside(self._root, spot.document.source, name)
        if isinstance(found, str):
            return spot.problem(found)
        path, shown = found
        if path not in self._prompts:  # one text for all names of a file: many could name a large one
            text = _text_of(path, shown)
            if isinstance(text, str):
                return spot.problem(text)
            self._prompts[path] = text.text
        return self._prompts[path]


class _Read:
    def __init__(self, text: str) -> None:
        self.text = text


def read_spec_text(text: str, environment: Mapping[str, str]) -> Sources:
    """Read a spec from a string; it includes nothing."""
    document = read_document(text, TEXT, environment)
    for entry in LocatedValue.top(document).at("include").items():
        document.problems.append(entry.problem("a spec that is no file has no folder to include files from"))
    return Sources([document], None)


def read_spec_files(path: str | PathLike[str], environment: Mapping[str, str]) -> Sources:
    """Read a spec and the files it includes; what is wrong stands in the documents.

    Raises:
        SpecError: the spec itself cannot be read.
    """
    file = Path(path)
    try:
        text = decode(_bytes_of(file))
    except NotUtf8 as error:
        raise spec_error([Problem(fspath(path), error.place, str(error))]) from None
    except OSError as error:
        raise SpecError(f"{file}: {_why(file, error)}; expected a YAML file with agents") from error
    top = read_document(text, fspath(path), environment)
    root = file.parent.resolve()
    return Sources(_with_included(top, file.resolve(), root, environment), root)


def _with_included(top: Document, file: Path, root: Path, environment: Mapping[str, str]) -> list[Document]:
    documents: list[Document] = []
    seen: dict[Path, str] = {file: "the spec itself"}
    values = len(top.places)
    waiting: list[tuple[Document, tuple[Path, ...]]] = [(top, (file,))]
    while waiting:  # no recursion: a chain of files may be longer than the stack
        document, chain = waiting.pop()
        documents.append(document)
        included: list[tuple[Document, tuple[Path, ...]]] = []
        for entry in LocatedValue.top(document).at("include").items():
            if entry.text is None:
                continue
            found = inside(root, document.source, entry.text)
            if isinstance(found, str):
                document.problems.append(entry.problem(found))
                continue
            path, source = found
            if len(seen) >= MAX_FILES or values > MAX_VALUES:
                most = f"at most {MAX_FILES:,} files with {MAX_VALUES:,} values together"
                document.problems.append(entry.problem(f"a spec is {most}; from here on nothing more is included"))
                break
            if path in chain:
                names = [each.name for each in (*chain[chain.index(path) :], path)]
                document.problems.append(entry.problem(f"this file includes itself: {' -> '.join(names)}"))
            elif path in seen:
                document.problems.append(entry.problem(f"{entry.text!r} is included twice, first by {seen[path]}"))
            else:
                seen[path] = f"{document.source}:{entry.place.line}"
                text = _text_of(path, source)
                if isinstance(text, str):
                    document.problems.append(entry.problem(text))
                else:
                    made = read_document(text.text, source, environment)
                    values += len(made.places)
                    included.append((made, (*chain, path)))
        waiting += reversed(included)
    return documents


def inside(root: Path, source: str, name: str) -> tuple[Path, str] | str:
    """Return a file that `source` names, resolved, and what errors call it; or why it may not be read.

    Args:
        root: the folder, resolved, that it must be in, links followed.
        source: the file whose folder the name is relative to.
        name: the file, as `source` says it.
    """
    if not name or Path(name).is_absolute():
        return f"expected a file relative to the spec, got {name!r}"
    shown = os.path.normpath(os.path.join(os.path.dirname(source), name))
    try:
        path = Path(shown).resolve()
    except (OSError, ValueError, RuntimeError):
        return f"{name!r} is no name of a file"
    if not path.is_relative_to(root):
        return f"{name!r} leads out of the folder of the spec, and a spec reads only what is inside of it"
    return path, shown


def _text_of(path: Path, shown: str) -> _Read | str:
    """Return the text of a file inside of the spec's folder, or why it cannot be read."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            return f"{shown} is no plain file"  # a pipe would be waited for
        return _Read(decode(_bytes_of(path)))
    except NotUtf8 as error:
        return f"{shown}:{error.place.line}:{error.place.column}: {error}"
    except SpecError as error:
        return str(error)
    except OSError as error:
        return f"{shown}: {_why(path, error)}"


def _bytes_of(file: Path) -> bytes:
    with file.open("rb") as stream:
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise SpecError(f"{file}: the file is too large; expected at most {MAX_BYTES:,} bytes")
    return data


def _why(file: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        if file.is_symlink():
            return "this is a link to a file that is not there"
        folder = file.parent
        near = did_you_mean(file.name, (one.name for one in folder.iterdir()), cutoff=0.75) if folder.is_dir() else ""
        return f"there is no such file{near}"
    if isinstance(error, IsADirectoryError):
        return "this is a folder"
    return f"cannot be read: {error.strerror}"
