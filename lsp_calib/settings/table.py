"""Every setting, declared once: key, kind, default and purpose.

Parsing, its messages, the tables of docs/reference.md and VS Code's settings are all made of this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

import attrs

from lsp_calib.exclusion import is_pattern
from lsp_calib.inference.choice import URL_WORDS, is_url
from lsp_calib.languages import ANY, is_choice
from lsp_calib.settings.kinds import (
    KEPT_OFF,
    KEPT_ON,
    THE_USERS,
    Bound,
    Kind,
    chance,
    checked_text,
    number,
    one_of,
    or_auto,
    overrides_kind,
    raised,
    share_or_off,
    switch,
    text,
    text_list,
    whole_number,
)
from lsp_calib.values import Override

_DECLARATION = "setting"
_SEVERITIES = ("error", "warning", "information", "hint", "off")
_MOST_PATTERNS = 200
_MOST_LANGUAGES = 200


@attrs.frozen(eq=False, repr=False)
class Setting:
    """A setting as its users know it.

    key: its name in a configuration, with dots. kind: the values it takes. meaning: its purpose, a clause of
    Markdown. unset: the effect of leaving it unset, if the default does not say it. also: its option of the
    command line, its environment variable. see: the page of the documentation with more, a Markdown link.
    bound: how far a workspace's value counts: KEPT_OFF can only turn off, KEPT_ON only on, `raised` only
    raise, THE_USERS nothing. None: it counts; of the tiers as far as `tier_policy` says.
    attribute, default: of the field that holds it.
    """

    key: str
    kind: Kind
    meaning: str
    unset: str = ""
    option: str = ""
    variable: str = ""
    see: str = ""
    bound: Bound | None = None
    attribute: str = ""
    default: Any = None


def _setting(key: str, kind: Kind, default: Any, meaning: str, *, converter: Any = None, **more: Any) -> Any:
    """A field that declares a setting."""
    bound: Bound | None = more.get("bound")
    meaning += f". A workspace can {bound.words}" if bound else ""
    declared = Setting(key, kind, meaning, default=default, **more)
    return attrs.field(default=default, converter=converter, metadata={_DECLARATION: declared})


def _own(name: str) -> Any:
    """The user's own value of a setting of an editor, beside which a workspace's can only be stricter."""
    field = getattr(attrs.fields(Settings), name)
    declared = attrs.evolve(field.metadata[_DECLARATION], default=() if field.converter else None)
    return attrs.field(default=declared.default, converter=field.converter, metadata={_DECLARATION: declared})


@attrs.frozen
class Settings:
    """The settings of an editor, which a workspace may change within bounds. `{}` is a complete
    configuration."""

    inline_completion: bool = _setting(
        "inlineCompletion.enabled", switch(), True, "completions as ghost text"
    )
    completion: Literal["auto", True, False] = _setting(
        "completion.enabled",
        one_of("auto", True, False),
        "auto",
        'completions in the completion menu; `"auto"`: where the editor has no ghost text',
    )
    multiline: bool = _setting(
        "multiline",
        switch(),
        False,
        "on an empty line, suggest a block of up to 12 lines that ends with its scope, instead of one line",
        see="[Blocks](#blocks)",
    )
    window: Literal["auto", "small", "large"] = _setting(
        "window",
        one_of("auto", "small", "large"),
        "auto",
        "how much the model is shown: `small`, some 40 lines; `large`, twice as many, and pieces of other "
        'files for models that know of files; `"auto"`: large where a calibrator knows it',
        see="[The window](#the-window)",
    )
    prefetch: bool = _setting(
        "prefetch.enabled",
        switch(),
        True,
        "in pauses, complete the line after an accepted suggestion",
        see="[When the model is asked](#when-the-model-is-asked)",
    )
    debounce_ms: int | None = _setting(
        "debounceMs",
        or_auto(whole_number(0, 2000)),
        None,
        "delay in milliseconds between a key and the request for a completion; none by hand. By default "
        "none, but for a moment while the model works on the request that this key has made useless",
        unset='`"auto"`',
    )
    languages: tuple[str, ...] = _setting(
        "languages",
        text_list(
            is_choice,
            f'a list of at most {_MOST_LANGUAGES} language identifiers such as "go"; "*" for all but text',
            _MOST_LANGUAGES,
        ),
        (ANY,),
        'the languages whose documents get completions without being asked; `"*"` stands for all but '
        "text such as Markdown and commit messages",
        converter=tuple,
        see="[When the model is asked](#when-the-model-is-asked)",
    )
    comments: Literal["on", "hand", "off"] | None = _setting(
        "comments",
        one_of("on", "hand", "off"),
        None,
        "completions where the cursor stands in a comment or a documentation string: `on`: as elsewhere; "
        "`hand`: those that you ask for by hand; `off`: none",
        unset="by the model: `on` for those whose card says so (code models), `hand` for others",
        see="[When the model is asked](#when-the-model-is-asked)",
    )
    on_battery: Literal["on", "less", "off"] = _setting(
        "onBattery",
        one_of("on", "less", "off"),
        "less",
        "on battery: `on`: no difference; `less`: no work ahead; `off`: also no completions but those "
        "that you ask for by hand",
        see="[When the model is asked](#when-the-model-is-asked)",
    )
    hover: bool = _setting("hover.enabled", switch(), True, "summaries of functions in the hover")
    hover_scope: Literal["signature", "function"] = _setting(
        "hover.scope",
        one_of("signature", "function"),
        "signature",
        "where a hover has a summary: on the lines of a signature and on the name of a called function of "
        "the same file; with `function` anywhere in a function",
        see="[Summaries](summaries.md)",
    )
    hover_budget_ms: int = _setting(
        "hover.budgetMs", whole_number(0, 60_000), 3000, "how many milliseconds a hover waits for its summary"
    )
    hover_ahead: bool = _setting(
        "hover.ahead",
        switch(),
        True,
        "summarise the functions around the cursor when nothing has happened for 5 s, once you have hovered "
        "over one, or with code lenses; not on battery, in a pause or by a remote model",
        see="[Summaries](summaries.md)",
    )
    code_lens: bool = _setting(
        "codeLens.enabled", switch(), False, "a line above each function with its summary and the tier"
    )
    diagnostics: bool = _setting(
        "diagnostics.enabled",
        switch(),
        True,
        "mark inserted suggestions until they are changed, reviewed or saved",
        bound=KEPT_ON,
    )
    severity_accept: str = _setting(
        "diagnostics.severity.accept",
        one_of(*_SEVERITIES),
        "hint",
        "how a mark of the tier accept is shown",
        bound=raised(_SEVERITIES[::-1]),
    )
    severity_review: str = _setting(
        "diagnostics.severity.review",
        one_of(*_SEVERITIES),
        "hint",
        "how a mark of the tier review is shown",
        bound=raised(_SEVERITIES[::-1]),
    )
    severity_reject: str = _setting(
        "diagnostics.severity.reject",
        one_of(*_SEVERITIES),
        "information",
        "how a mark of the tier reject is shown",
        bound=raised(_SEVERITIES[::-1]),
    )
    # Of the tiers: the wishes of an editor or a workspace. `tier_policy` holds them to the user's own.
    policy: Literal["threshold", "risk", "cost"] | None = _setting(
        "tiers.policy",
        one_of("threshold", "risk", "cost"),
        None,
        "how tiers follow from probabilities: by `threshold`; by `risk`: accept only where a certificate "
        "limits the share of wrong ones; by `cost`. A workspace can only choose `risk`",
        unset='`"threshold"`',
        see="[Tiers](tiers.md)",
    )
    preset: Literal["cautious", "balanced", "lenient"] | None = _setting(
        "tiers.preset",
        one_of("cautious", "balanced", "lenient"),
        None,
        "the thresholds of the tiers: `cautious` for critical code (accept from 90 %, reject below 40 %); "
        "`balanced` for accepting at a glance (78 %, 25 %); `lenient` for lines that you read anyway "
        "(66 %, 10 %). A workspace can only choose a stricter one",
        unset='`"balanced"`',
        see="[Who may set what](tiers.md#who-may-set-what)",
    )
    accept_from: float | None = _setting(
        "tiers.acceptFrom",
        number(0, 1),
        None,
        "the lowest probability of the tier accept. A workspace can only raise it",
        unset="the preset's",
    )
    reject_below: float | None = _setting(
        "tiers.rejectBelow",
        number(0, 1),
        None,
        "probabilities below this one are of the tier reject. A workspace can only raise it",
        unset="the preset's",
    )
    risk: float | None = _setting(
        "tiers.risk",
        chance(),
        None,
        "with the policy `risk`: at most this share of what is marked accept is wrong. A workspace can only "
        "lower it",
        unset="0.1; `cautious`: 0.05, `lenient`: 0.2",
    )
    tiers_confidence: float | None = _setting(
        "tiers.confidence",
        chance(),
        None,
        "with the policy `risk`: the probability that the certificate's limit holds. A workspace can only "
        "raise it",
        unset="0.9; `cautious`: 0.95, `lenient`: 0.8",
    )
    overrides: tuple[Override, ...] = _setting(
        "tiers.overrides",
        overrides_kind(),
        (),
        "stricter tiers for a language or for documents at a path, whatever the policy says; those from all "
        "places count together",
        converter=tuple,
        see="[Overrides](tiers.md#overrides)",
    )
    measure: Literal["best", "geometric-mean", "total"] = _setting(
        "confidence.measure",
        one_of("best", "geometric-mean", "total"),
        "best",
        "the evidence for the confidence: `best`: everything known of a line; `total`: the probability "
        "of all its tokens together; `geometric-mean`: the mean probability of its first tokens",
        bound=THE_USERS,
        see="[What the numbers mean](confidence.md)",
    )
    hide_below: float | None = _setting(
        "hideBelow",
        share_or_off(),
        None,
        "completions that are less likely than this to survive are not shown, except one in a hundred and "
        "those that you ask for by hand; 0 or `false`: everything is shown. To survive is to be kept, as it "
        "is or after an edit of at most half of it. Of a model without labels of that nothing is hidden",
        bound=raised(words="only raise it where you have set it in config.toml"),
        unset="0.125",
        see="[Hiding](hiding.md)",
    )
    sure: Literal["mark", "cut", "off"] = _setting(
        "sure",
        one_of("mark", "cut", "off"),
        "mark",
        "the beginning of a line that is as likely to be right as what is accepted, where the whole line is "
        "not: `mark` names its end; `cut` offers it alone; `off`: nothing is said of it",
        see="[How far a line can be trusted](confidence.md#how-far-a-line-can-be-trusted)",
    )
    auto_refit: bool = _setting(
        "autoRefit",
        switch(),
        True,
        "refit by itself, in a pause, once 30 lines and a fifth more have labels than at the last refit",
        bound=KEPT_OFF,
        see="[Your own](confidence.md#your-own)",
    )
    feedback: bool = _setting(
        "feedback.enabled", switch(), True, "remember what became of suggestions", bound=KEPT_OFF
    )
    model_idle_seconds: float = _setting(
        "modelIdleSeconds",
        number(0, 3600),
        10.0,
        "how many seconds the model stays loaded after its last user has gone",
        bound=THE_USERS,
    )
    exclude: tuple[str, ...] = _setting(
        "exclude",
        text_list(
            is_pattern,
            f'a list of at most {_MOST_PATTERNS} patterns such as "generated/**"',
            _MOST_PATTERNS,
        ),
        (),
        "patterns of documents that no model may see, besides files that hold secrets (`.env`, keys); "
        "patterns from all places count together",
        converter=tuple,
        see="[Excluded documents](#excluded-documents)",
    )


@attrs.frozen
class Trusted:
    """The settings that only the user may choose: command line, environment, `config.toml`, or an editor that
    is trusted (`serve --trust-editor`).

    A workspace is not trusted: nothing that comes with a checkout may name a file, a host or a command. What
    it may set is in `Settings`, within bounds (`sources.parse`) and not below the user's tiers
    (`calibration.tiers.policy_of`).

    given: the fields that were set, be it to their defaults; what differs in it alone is equal.
    """

    model: str | None = _setting(
        "model",
        text(),
        None,
        "a model's name, or the absolute path of a GGUF file",
        unset="the best installed one",
        option="--model",
        variable="LSP_CALIB_MODEL",
        see="[Models](models.md), [relative paths](models.md#any-gguf-file)",
    )
    threads: int = _setting(
        "threads",
        whole_number(0, 512),
        0,
        "the most threads to decode with; 0: automatic. Fewer are used beside other busy programs",
        option="--threads",
    )
    gpu_layers: int | None = _setting(
        "gpuLayers",
        or_auto(whole_number(0, 100_000)),
        None,
        "layers to put on the GPU; 0: none. By default, if the engine finds a GPU, it tries the model there "
        "and on the processor, and uses the faster one",
        unset='`"auto"`',
        option="--gpu-layers",
    )
    mlock: bool = _setting("mlock", switch(), False, "keep the model's weights from being swapped out")
    remote_url: str | None = _setting(
        "remote.url",
        checked_text(is_url, URL_WORDS),
        None,
        "an OpenAI-compatible server to ask instead of a model on this machine",
        unset="none",
        option="--remote",
        variable="LSP_CALIB_REMOTE_URL",
        see="[Remote models](remote.md)",
    )
    remote_model: str | None = _setting(
        "remote.model",
        text(),
        None,
        "the server's name for the model, or that of a card",
        unset="the only one there",
        variable="LSP_CALIB_REMOTE_MODEL",
    )
    remote_key_file: str | None = _setting(
        "remote.keyFile",
        text(),
        None,
        "the absolute path of a file with the server's key that nobody else can read",
        unset="none",
    )
    window: Literal["auto", "small", "large"] | None = _own("window")
    exclude: tuple[str, ...] = _own("exclude")
    policy: Literal["threshold", "risk", "cost"] | None = _own("policy")
    preset: Literal["cautious", "balanced", "lenient"] | None = _own("preset")
    accept_from: float | None = _own("accept_from")
    reject_below: float | None = _own("reject_below")
    risk: float | None = _own("risk")
    tiers_confidence: float | None = _own("tiers_confidence")
    overrides: tuple[Override, ...] = _own("overrides")
    wrong_accepted: float | None = _setting(
        "tiers.costs.wrongAccepted",
        number(1, 1000),
        None,
        "with the policy `cost`: the cost of accepting a wrong suggestion; reading one with care costs 1",
        unset="4.5; `cautious`: 10, `lenient`: 3",
        see="[By cost](tiers.md#by-cost)",
    )
    right_rejected: float | None = _setting(
        "tiers.costs.rightRejected",
        number(1, 1000),
        None,
        "with the policy `cost`: the cost of rejecting a right suggestion",
        unset="4; `cautious`: 2.5, `lenient`: 10",
    )
    # A workspace that set it could cause feedback to be deleted.
    retention_days: int = _setting(
        "feedback.retentionDays",
        whole_number(1, 36_500),
        365,
        "for how many days feedback is kept; older feedback is deleted, a little at a time",
    )
    feedback: bool | None = _own("feedback")
    auto_refit: bool | None = _own("auto_refit")
    diagnostics: bool | None = _own("diagnostics")
    severity_accept: str | None = _own("severity_accept")
    severity_review: str | None = _own("severity_review")
    severity_reject: str | None = _own("severity_reject")
    measure: Literal["best", "geometric-mean", "total"] | None = _own("measure")
    hide_below: float | None = _own("hide_below")
    model_idle_seconds: float | None = _own("model_idle_seconds")
    git_history: bool = _setting(
        "feedback.gitHistory",
        switch(),
        True,
        "offer, once for each workspace, to calibrate on lines that you have committed",
        see="[Calibrating on the workspace](#calibrating-on-the-workspace)",
    )
    criterion: Literal["most-agree", "high-precision", "best-f1", "high-recall"] = _setting(
        "summary.criterion",
        one_of("most-agree", "high-precision", "best-f1", "high-recall"),
        "most-agree",
        "the event that a summary's probability is of: `most-agree`: most people agree that the summary says "
        "what the author wrote. The others are the criteria of Virk et al.; `calibrate --task summary` fits "
        "them on your own code",
        see="[What is like a person's](summaries.md#thresholds)",
    )
    given: frozenset[str] = attrs.field(default=frozenset(), kw_only=True, eq=False, repr=False)


DEFAULTS = Settings()


def _declared(kind: type) -> Mapping[str, Setting]:
    """The settings that a class declares, by key."""
    found = (
        attrs.evolve(field.metadata[_DECLARATION], attribute=field.name)
        for field in attrs.fields(kind)
        if _DECLARATION in field.metadata
    )
    return MappingProxyType({setting.key: setting for setting in found})


WORKSPACE: Mapping[str, Setting] = _declared(Settings)
"""The settings of an editor, which may come from a workspace, by key."""
TRUSTED: Mapping[str, Setting] = _declared(Trusted)
"""The user's own settings, by key. Of what is in both tables, a workspace's value counts within its `bound`;
of lists, those of all places count together."""
