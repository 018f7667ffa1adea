"""The families of Claude models, and what each makes of the settings."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.providers.wire.families import NEVER_REASONS, Family

EFFORTS: Mapping[str, str | int] = {word: word for word in ("low", "medium", "high", "xhigh", "max")}
"""Level -> `output_config.effort`, beside `thinking: {"type": "adaptive"}`."""
UP_TO_MAX: Mapping[str, str | int] = {word: word for word in ("low", "medium", "high", "max")}
BUDGETS: Mapping[str, str | int] = {
    "off": "disabled",
    "minimal": 1024,  # the least that the API takes
    "low": 2048,
    "medium": 8192,
    "high": 16_384,
}
"""Level -> `thinking.budget_tokens`. The numbers are ours: the API has no levels for these models."""
BUDGET = (1024, 200_000)  # Claude API, Extended thinking: at least 1,024, and below max_tokens, which differs by model.

LEVELS_PAGE = "Claude API, Adaptive thinking, Effort, Migration guide; SDK 2.12, types/model.py"
BUDGET_PAGE = "Claude API, Extended thinking"
ONE = "the API's error of status 400, `temperature` and `top_p` cannot both be specified for this model"
NO_FORCE = "use tool_choice='auto'"
OLD = "leave it out, or use Claude 4.5 or later"

FAMILIES = (
    Family(
        name="Claude Opus 5.5, Fable 5.1 and later, Mythos 5.1 and later",
        pattern=r"claude-(opus-5[-.]5|(fable|mythos)-5[-.]\d)(?!\d)",
        example="claude-opus-5-5",
        source=LEVELS_PAGE,
        levels=EFFORTS,
        reasons=True,
        sampling="never",
        lacks={"tool_choice": NO_FORCE},
    ),
    Family(
        name="Claude Sonnet 5.5",
        pattern=r"claude-sonnet-5[-.]5(?!\d)",
        example="claude-sonnet-5-5",
        source=LEVELS_PAGE,
        levels={"off": "between_tools", **EFFORTS},
        reasons=True,
        sampling="never",
        lacks={"tool_choice": NO_FORCE},
    ),
    Family(
        name="Claude Fable 5, Mythos 5 and Mythos Preview",
        pattern=r"claude-(fable-5|mythos)",
        example="claude-fable-5",
        source=LEVELS_PAGE,
        levels=EFFORTS,
        reasons=True,
        sampling="never",
    ),
    Family(
        name="Claude Opus 5, Sonnet 5 and Haiku 5.5",
        pattern=r"claude-((opus|sonnet)-5(?![-.]\d(?!\d))|haiku-5)(?!\d)",
        example="claude-opus-5",
        source=LEVELS_PAGE,
        levels={"off": "disabled", **EFFORTS},
        reasons=True,
        sampling="never",
    ),
    Family(
        name="Claude Opus 4.7 and 4.8",
        pattern=r"claude-(opus-4[-.][78]|4[-.][78]-opus)(?!\d)",
        example="claude-opus-4-7",
        source=LEVELS_PAGE,
        levels={"off": "disabled", **EFFORTS},
        sampling="never",
    ),
    Family(
        name="Claude Opus 4.6 and Sonnet 4.6",
        pattern=r"claude-((opus|sonnet)-4[-.]6|4[-.]6-(opus|sonnet))(?!\d)",
        example="claude-sonnet-4-6",
        source=f"{LEVELS_PAGE}; {ONE}",
        levels={"off": "disabled", **UP_TO_MAX},
        tokens=BUDGET,
        sampling="without reasoning",
        one_sampling=True,
    ),
    Family(
        name="Claude 4.5, and Opus 4.1",
        pattern=r"claude-((opus|sonnet|haiku)-4[-.]5|4[-.]5-(opus|sonnet|haiku)|opus-4[-.]1)(?!\d)",
        example="claude-haiku-4-5",
        source=f"{BUDGET_PAGE}; Strict tool use; {ONE}",
        levels=BUDGETS,
        tokens=BUDGET,
        sampling="without reasoning",
        one_sampling=True,
    ),
    Family(
        name="Claude 4 and 3.7",
        pattern=r"claude-((opus|sonnet)-4(?![-.]\d(?!\d))|(opus|sonnet)-4[-.]0|4-(opus|sonnet)|3[-.]7)",
        example="claude-sonnet-4-20250514",
        source=f"{BUDGET_PAGE}; Strict tool use",
        levels=BUDGETS,
        tokens=BUDGET,
        sampling="without reasoning",
        lacks={"strict_tools": OLD},
    ),
    Family(
        name="Claude 3.5 and before",
        pattern=r"claude-([123](?!\d)|instant)",
        example="claude-3-5-haiku-20241022",
        source=BUDGET_PAGE,
        levels=NEVER_REASONS,
        lacks={"strict_tools": OLD},
    ),
    Family(
        name="later Claude models",
        pattern=r"claude-[a-z]+-\d",
        example="claude-opus-6",
        source="assumed: as the latest models",
        levels=EFFORTS,
        reasons=True,
        sampling="never",
    ),
    Family(
        name="models whose names tell no family",
        pattern="",
        example="kimi-k2",
        source="servers of other makers with this API",
        levels=BUDGETS,
        tokens=(1, 1_000_000),
        sampling="without reasoning",
    ),
)
