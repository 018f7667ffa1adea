"""Compaction of long conversations: the rule of an agent, and the words before a summary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from understudy.vocabulary.checks import checked_flag, checked_number, checked_text, checked_whole
from understudy.vocabulary.messages import Message, TextPart
from understudy.vocabulary.models import Model, ModelLike, ModelName
from understudy.vocabulary.other_names import explains_arguments

DEFAULT_THRESHOLD = 0.8  # The rest is for the answer, and for what an estimate misses.
DEFAULT_KEEP = 0.3  # Enough for some turns with their tool results; compactions stay rare.
DEFAULT_SUMMARY_TOKENS = 2_000  # About three pages.

LEAST_WINDOW = 500
"""Tokens of a context window. The request for a summary takes about 400, of which 100 are of the conversation."""

SUMMARY_INTRO = "Summary of the conversation so far, in place of its earlier messages:\n\n"


@explains_arguments("Compaction", {"max_tokens": "use context_window="})
@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """When and how a run shortens a conversation that fills the context window of its model.

    Before a model call that would fill `threshold` of the window, old tool results are left out of the request. If that
    is not enough, a model sums the older messages up, and the request is the summary and the latest messages. The run's
    own messages stay whole. After a refusal with `ContextOverflow` the same happens once, and the turn is tried again.

    Raises:
        TypeError: a value is of the wrong type.
        ValueError: a value is out of range, or the model string is unknown.
    """

    context_window: int | None = None
    """Tokens that a prompt may have, 500 at least. None: as known of the model; if that is unknown, only `ContextOverflow` counts."""
    threshold: float = DEFAULT_THRESHOLD
    """The share of the window that a request may fill."""
    keep: float = DEFAULT_KEEP
    """The share of the window that the latest messages may fill after a compaction; they are kept word for word."""
    model: ModelLike | ModelName | None = None
    """The model that sums up: a model string, which becomes a `ModelName`, or an object. None for the agent's own."""
    prompt: str | None = None
    """Instructions for the summary, in place of the usual ones."""
    summary_tokens: int = DEFAULT_SUMMARY_TOKENS
    """About how long a summary may be; at most an eighth of the window."""
    prune: bool = True
    """Whether old tool results are left out before a summary is asked for."""

    def __post_init__(self) -> None:
        if self.context_window is not None:
            checked_whole("compaction: context_window", self.context_window, LEAST_WINDOW)
        if not 0 < checked_number("compaction: threshold", self.threshold) <= 1:
            raise ValueError(f"compaction: threshold must be above 0 and at most 1, got {self.threshold}")
        if not 0 <= checked_number("compaction: keep", self.keep) < self.threshold:
            raise ValueError(f"compaction: keep must be at least 0 and below threshold, got {self.keep}")
        if self.prompt is not None and not checked_text("compaction: prompt", self.prompt).strip():
            raise ValueError("compaction: prompt needs words, or None for the usual ones")
        checked_whole("compaction: summary_tokens", self.summary_tokens, 1)
        checked_flag("compaction: prune", self.prune)
        object.__setattr__(self, "model", _checked_model(self.model))

    @property
    def other_model(self) -> ModelName | Model | None:
        """The model that sums up; None for the agent's own."""
        return cast("ModelName | Model | None", self.model)


def _checked_model(model: object) -> ModelName | Model | None:
    if model is None or isinstance(model, ModelName):
        return model
    if isinstance(model, str):
        return ModelName.parse(model)
    if isinstance(model, type) or not isinstance(model, Model):
        raise TypeError(
            f"compaction: model must be a model string or an object with a complete() method, got {model!r}"
        )
    return model


def summary_part(summary: str) -> TextPart:
    """Return a summary as a model reads it."""
    return TextPart(SUMMARY_INTRO + summary)


def summary_message(summary: str) -> Message:
    """Return a summary as the first message of a conversation."""
    return Message("user", (summary_part(summary),))
