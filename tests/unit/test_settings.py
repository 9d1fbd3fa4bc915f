"""Settings: each key, and what becomes of wrong ones. Nothing an editor sends may stop the server."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from settings_rendering import vscode_properties
from write_settings import EXTENSION, REFERENCE, extension, reference

from lsp_calib.cli import main
from lsp_calib.inference.choice import EngineChoice, Remote
from lsp_calib.settings import (
    Settings,
    Trusted,
    engine_choice,
    of_the_user,
    parse,
    parse_trusted,
    resolve_trusted,
)
from lsp_calib.settings.kinds import without_value
from lsp_calib.settings.table import TRUSTED, WORKSPACE

# key -> (attribute, values that fit, values that do not)
SWITCH: tuple[list[Any], list[Any]] = ([True, False], [1, 0, "true", [], {}, 1.0])
SEVERITY: tuple[list[Any], list[Any]] = (
    ["error", "warning", "information", "hint", "off"],
    ["Hint", "", 1, True, [], ["hint"]],
)
SHARE: tuple[list[Any], list[Any]] = (
    [0, 1, 0.5, 0.0, 1.0],
    [-0.1, 1.1, "0.5", True, float("nan"), [], 10**400],
)
OPEN_SHARE: tuple[list[Any], list[Any]] = (
    [0.001, 0.05, 0.5, 0.999],
    [0, 1, 0.0, 1.0, 1e-300, 0.0009, 0.9991, -0.1, 1.1, "0.1", True, float("nan"), [], {}],
)
KEYS: dict[str, tuple[str, tuple[list[Any], list[Any]]]] = {
    "inlineCompletion.enabled": ("inline_completion", SWITCH),
    "multiline": ("multiline", SWITCH),
    "window": ("window", (["auto", "small", "large"], ["medium", True, 1, [], 3200])),
    "prefetch.enabled": ("prefetch", SWITCH),
    "completion.enabled": ("completion", (["auto", True, False], [1, 0, "on", "Auto", [], {}])),
    "debounceMs": ("debounce_ms", ([0, 40, 2000], [-1, 2001, 1.5, "40", True, [], {}])),
    "languages": (
        "languages",
        (
            [[], ["*"], ["python", "c++", "*"], ["a-b.c_d"]],
            ["python", {"python": True}, [1], [None], [""], ["a b"], ["x" * 65], ["!go"], True, 1],
        ),
    ),
    "comments": ("comments", (["on", "hand", "off"], ["On", "auto", "", True, False, 0, [], {}])),
    "onBattery": ("on_battery", (["on", "less", "off"], ["On", True, False, 0, [], {}])),
    "hover.enabled": ("hover", SWITCH),
    "hover.budgetMs": ("hover_budget_ms", ([0, 1, 60_000], [-1, 60_001, 1.5, "9", True, float("inf")])),
    "hover.scope": ("hover_scope", (["signature", "function"], ["body", True, 1, [], {}])),
    "hover.ahead": ("hover_ahead", SWITCH),
    "codeLens.enabled": ("code_lens", SWITCH),
    "diagnostics.enabled": ("diagnostics", SWITCH),
    "diagnostics.severity.accept": ("severity_accept", SEVERITY),
    "diagnostics.severity.review": ("severity_review", SEVERITY),
    "diagnostics.severity.reject": ("severity_reject", SEVERITY),
    "tiers.policy": ("policy", (["threshold", "risk", "cost"], ["Risk", "", 1, True, []])),
    "tiers.risk": ("risk", OPEN_SHARE),
    "tiers.confidence": ("tiers_confidence", OPEN_SHARE),
    "autoRefit": ("auto_refit", SWITCH),
    "tiers.overrides": (
        "overrides",
        (
            [[], [{"language": "rust", "acceptFrom": 0.9}], [{"path": "crypto/**", "rejectBelow": 1}]],
            [
                *("rust", {"language": "rust"}, [{"language": "rust"}], [{"acceptFrom": 0.9}], [1], [None]),
                *([{"path": "", "acceptFrom": 0.9}], [{"path": "a", "acceptFrom": 1.5}], True, 1),
                *([{"path": "a", "acceptFrom": True}], [{"path": "a", "acceptFrom": 1, "policy": "cost"}]),
                [{"language": "*", "acceptFrom": 0.9}],
            ],
        ),
    ),
    "tiers.preset": ("preset", (["cautious", "balanced", "lenient"], ["bold", 1, True, []])),
    "tiers.acceptFrom": ("accept_from", SHARE),
    "tiers.rejectBelow": ("reject_below", SHARE),
    "confidence.measure": (
        "measure",
        (["best", "geometric-mean", "total"], ["Best", "geometric-mean-first-4", "", 1, True, []]),
    ),
    "hideBelow": (
        "hide_below",
        ([False, 0, 0.0, 0.2, 0.999], [True, 1, 1.0, -0.1, 1.1, 20, "0.2", float("nan"), [], {}]),
    ),
    "sure": ("sure", (["mark", "cut", "off"], ["Mark", "", 1, True, []])),
    "feedback.enabled": ("feedback", SWITCH),
    "exclude": (
        "exclude",
        (
            [[], ["*.min.js"], ["/generated/**", "*.{a,b}"]],
            ["*.js", {"*.js": True}, [1], [None], ["!keep.py"], [""], ["/"], ["x" * 401], True, 1],
        ),
    ),
    "modelIdleSeconds": ("model_idle_seconds", ([0, 10, 0.5, 3600], [-1, 3601, "9", True, float("nan"), []])),
}
GOOD = [(key, name, value) for key, (name, (good, _)) in KEYS.items() for value in good]
BAD = [(key, value) for key, (_, (_, bad)) in KEYS.items() for value in bad]


def nested(key: str, value: object) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def test_every_setting_is_tested_here() -> None:
    assert {key: name for key, (name, _) in KEYS.items()} == {
        key: setting.attribute for key, setting in WORKSPACE.items()
    }
    assert {name for name, _ in KEYS.values()} == {field.name for field in attrs.fields(Settings)}


@pytest.mark.parametrize(
    ("path", "written"), [(REFERENCE, reference), (EXTENSION, extension)], ids=["reference", "VS Code"]
)
def test_what_is_written_from_the_table_of_settings_says_what_the_table_says(
    path: Path, written: Callable[[str], str]
) -> None:
    text = path.read_text("utf-8")
    assert text == written(text), "run `make settings`"


def test_vs_code_takes_trusted_settings_from_no_workspace() -> None:
    properties = vscode_properties()
    scopes = {name: schema["scope"] for name, schema in properties.items()}
    for key in TRUSTED.keys() - WORKSPACE.keys():
        assert scopes.pop(f"lspCalib.trusted.{key}") == "machine", key
    # A server has one value for all folders, except of what each of them excludes.
    assert scopes.pop("lspCalib.exclude") == "resource"
    # What a workspace has no say in is not taken from one either.
    for key in ("confidence.measure", "modelIdleSeconds"):
        assert scopes.pop(f"lspCalib.{key}") == "machine"
    rest = WORKSPACE.keys() - {"exclude", "confidence.measure", "modelIdleSeconds"}
    assert scopes == {f"lspCalib.{key}": "window" for key in rest}
    assert all(schema["default"] is None for schema in properties.values()), "what is unset is the server's"


# `window` has no bound: an editor's value counts, whosever it is, and then the user's file.
@pytest.mark.parametrize(
    ("file", "listed"),
    [
        ("vscode/src/settings.ts", r"const SHARED = \[(.*?)\]"),
        ("neovim/lua/lsp_calib/config.lua", r"local OWN = \{(.*?)\}"),
    ],
)
def test_editors_tell_the_server_the_users_own_value_of_each_setting_with_a_bound(
    file: str, listed: str
) -> None:
    (found,) = re.findall(listed, (EXTENSION.parent.parent / file).read_text("utf-8"), re.DOTALL)
    assert set(re.findall(r"'([\w.]+)'", found)) == (TRUSTED.keys() & WORKSPACE.keys()) - {"window"}


def test_an_option_of_the_command_line_takes_what_its_setting_takes() -> None:
    options = {name: parameter.type for parameter in main.commands["serve"].params for name in parameter.opts}
    for setting in TRUSTED.values():
        if setting.option:
            kind = options[setting.option]
            limits = (kind.min, kind.max) if isinstance(kind, click.IntRange) else (None, None)
            schema = setting.kind.schema
            assert limits == (schema.get("minimum"), schema.get("maximum")), setting.option


@pytest.mark.parametrize("key", [key for key, setting in TRUSTED.items() if setting.variable])
@pytest.mark.usefixtures("home")
def test_a_setting_is_taken_from_its_variable(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    value = "https://host/v1"
    monkeypatch.setenv(TRUSTED[key].variable, value)
    assert resolve_trusted(Trusted(), Trusted()) == (Trusted(**{TRUSTED[key].attribute: value}), [])


def test_an_empty_object_is_a_complete_configuration() -> None:
    for nothing in ({}, None):
        assert parse(nothing) == (Settings(), [])


@pytest.mark.parametrize(("key", "name", "value"), GOOD)
def test_a_value_that_fits_is_taken_nested_or_dotted(key: str, name: str, value: object) -> None:
    read, _ = WORKSPACE[key].kind.read(value)
    expected = attrs.evolve(Settings(), **{name: read if key == "tiers.overrides" else value})
    # A workspace's value counts in any case where it is the user's own.
    own = expected if WORKSPACE[key].bound else Settings()
    assert parse(nested(key, value), own=own) == (expected, [])
    assert parse({key: value}, own=own) == (expected, [])


# key -> the user's own value, what a workspace may say beside it, what it may not
BOUNDED: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "diagnostics.enabled": (True, [True], [False]),
    "diagnostics.severity.accept": ("hint", ["hint", "error"], ["off"]),
    "diagnostics.severity.review": ("hint", ["hint", "warning"], ["off"]),
    "diagnostics.severity.reject": ("information", ["warning", "error"], ["hint", "off"]),
    "confidence.measure": ("best", ["best"], ["total", "geometric-mean"]),
    "hideBelow": (0.2, [0.2, 0.5], [False, 0.1]),
    "autoRefit": (False, [False], [True]),
    "feedback.enabled": (False, [False], [True]),
    "modelIdleSeconds": (60, [60], [0, 3600]),
}


def test_every_bound_is_tested_here() -> None:
    assert set(BOUNDED) == {key for key, setting in WORKSPACE.items() if setting.bound}


@pytest.mark.parametrize("key", BOUNDED)
@pytest.mark.parametrize("place", ["config.toml", "trusted"])
def test_a_workspace_cannot_loosen_what_the_user_has_set(home: Path, key: str, place: str) -> None:
    mine, allowed, refused = BOUNDED[key]
    name = WORKSPACE[key].attribute
    editor = Trusted()
    if place == "trusted":
        editor, _ = parse_trusted(nested(key, mine))
    else:
        (home / "config.toml").write_text(f"{key} = {json.dumps(mine)}\n")
    trusted, problems = resolve_trusted(Trusted(), editor)
    assert problems == []
    own = of_the_user(trusted)
    assert getattr(own, name) == mine
    start, problems = parse({}, own, own)
    assert (start, problems) == (own, []), "it holds where nobody else says anything"
    for value in allowed:
        assert parse({key: value}, start, own) == (attrs.evolve(own, **{name: value}), [])
    for value in refused:
        settings, (problem,) = parse({key: value}, start, own)
        assert settings == own
        shown = 0 if value is False and key == "hideBelow" else value
        assert f"lspCalib.{key} {json.dumps(shown)} does not count, {json.dumps(mine)} does" in problem
        assert f"set {key} in config.toml or in VS Code's user settings" in problem


@pytest.mark.parametrize("value", [False, 0.01, 0.5])
def test_where_the_user_has_no_limit_of_what_is_hidden_an_editors_counts(value: Any) -> None:
    """Less may be hidden than by default."""
    assert Settings().hide_below is None
    assert parse({"hideBelow": value}) == (Settings(hide_below=float(value)), [])


@pytest.mark.usefixtures("home")
def test_an_editors_window_goes_before_the_users_file(home: Path) -> None:
    (home / "config.toml").write_text('window = "large"\n')
    trusted, problems = resolve_trusted(Trusted(), Trusted())
    own = of_the_user(trusted)
    assert (own.window, problems) == ("large", [])
    assert parse({}, own, own)[0].window == "large"
    assert parse({"window": "small"}, own, own) == (attrs.evolve(own, window="small"), [])


@pytest.mark.parametrize("key", sorted(BOUNDED.keys() - {"hideBelow", "autoRefit"}))
def test_without_a_word_of_the_user_the_default_is_what_a_workspace_cannot_loosen(key: str) -> None:
    _, _, refused = BOUNDED[key]
    for value in () if key.startswith("feedback.") else refused:
        settings, (problem,) = parse({key: value})
        assert settings == Settings()
        assert f"lspCalib.{key} " in problem


@pytest.mark.parametrize(("key", "value"), BAD, ids=lambda value: str(value)[:20])
def test_a_value_that_does_not_fit_is_named_and_the_default_is_used(key: str, value: object) -> None:
    settings, problems = parse(nested(key, value))
    assert settings == Settings()
    (problem,) = problems
    assert f"lspCalib.{key}" in problem


@pytest.mark.parametrize(
    "value", ["sk-secret", ["sk-secret", 1], {"a": "sk-secret; \n"}, "x" * 70 + "sk-secret"]
)
@pytest.mark.parametrize("key", ["threads", "gpuLayers", "mlock"])
def test_a_message_can_be_had_without_the_value_that_it_repeats(key: str, value: object) -> None:
    _, (problem,) = parse_trusted({key: value})
    assert "sk-" in problem
    assert "sk-" not in without_value(problem)
    assert without_value(problem).startswith(f"lspCalib.trusted.{key} must be ")


@pytest.mark.parametrize("key", KEYS)
def test_null_means_not_set(key: str) -> None:
    assert parse(nested(key, None)) == (Settings(), [])


def test_one_wrong_key_does_not_spoil_the_others() -> None:
    settings, problems = parse({"hover": {"enabled": False, "budgetMs": "soon"}, "tiers.preset": "lenient"})
    assert settings == Settings(hover=False, preset="lenient")
    assert len(problems) == 1


@pytest.mark.parametrize(
    ("raw", "key"),
    [
        ({"colour": 1}, "lspCalib.colour"),
        ({"hover": {"colour": 1}}, "lspCalib.hover.colour"),
        ({"hover.colour": 1}, "lspCalib.hover.colour"),
        ({"hover": True}, "lspCalib.hover"),
        ({"": 1}, "lspCalib."),
        ({"diagnostics": {"severity": "off"}}, "lspCalib.diagnostics.severity"),
    ],
)
def test_an_unknown_key_is_named_and_ignored(raw: dict[str, Any], key: str) -> None:
    settings, (problem,) = parse(raw)
    assert settings == Settings()
    assert key in problem


@pytest.mark.parametrize("raw", [[1], "text", 1, True, [{}]])
def test_something_else_than_an_object_is_named(raw: object) -> None:
    settings, (problem,) = parse(raw)
    assert settings == Settings()
    assert "lspCalib" in problem


def test_thresholds_in_the_wrong_order_are_named_and_the_presets_are_used() -> None:
    settings, (problem,) = parse({"tiers": {"acceptFrom": 0.2, "rejectBelow": 0.6}})
    assert settings == Settings()
    assert "0.6" in problem
    assert "0.2" in problem


def test_a_workspace_can_exclude_more_and_take_nothing_back() -> None:
    start, _ = parse({"exclude": ["private/**"]})
    for raw in ({"exclude": []}, {"exclude": None}, {"exclude": "none"}, {"exclude": ["!private/**"]}, {}):
        assert parse(raw, start)[0].exclude == ("private/**",)
    more, problems = parse({"exclude": ["*.gen.py", "private/**"]}, start)
    assert more.exclude == ("private/**", "*.gen.py")
    assert problems == []


def test_of_a_list_with_faults_what_is_right_still_counts() -> None:
    settings, (problem,) = parse({"exclude": ["secret/*", 7, "!x", "other"]})
    assert settings.exclude == ("secret/*", "other")
    assert "lspCalib.exclude" in problem
    settings, (problem,) = parse({"exclude": [f"{n}.py" for n in range(5000)]})
    assert len(settings.exclude) == 200
    assert len(problem) < 300


def test_overrides_of_the_user_stay_beside_those_of_a_workspace(home: Path) -> None:
    (home / "config.toml").write_text('[tiers]\noverrides = [{ language = "rust", acceptFrom = 0.9 }]\n')
    mine = {"path": "crypto/**", "acceptFrom": 0.95}
    trusted, problems = resolve_trusted(Trusted(), parse_trusted({"tiers": {"overrides": [mine]}})[0])
    assert problems == []
    assert [one.accept_from for one in trusted.overrides] == [0.95, 0.9]
    start, _ = parse({"tiers": {"overrides": [mine]}})
    for raw in ({}, {"tiers": {"overrides": []}}, {"tiers": {"overrides": "none"}}):
        assert parse(raw, start)[0].overrides == start.overrides
    more, _ = parse({"tiers": {"overrides": [{"language": "go", "rejectBelow": 0.5}, mine]}}, start)
    assert [one.language for one in more.overrides] == [None, "go"]


def test_what_is_excluded_in_the_users_file_holds_whatever_an_editor_says(home: Path) -> None:
    (home / "config.toml").write_text('exclude = ["private/**", "a"]\n')
    trusted, problems = resolve_trusted(Trusted(), parse_trusted({"exclude": ["b", "a"]})[0])
    assert set(trusted.exclude) == {"private/**", "a", "b"}
    assert len(trusted.exclude) == 3
    assert problems == []


def test_a_change_keeps_what_was_set_before() -> None:
    before, _ = parse({"hover.enabled": False})
    after, _ = parse({"tiers.preset": "cautious"}, before)
    assert after == Settings(hover=False, preset="cautious")


@pytest.mark.parametrize(
    "key",
    [
        *("model", "threads", "gpuLayers", "mlock", "remote.url", "remote.model", "remote.keyFile"),
        *("feedback.retentionDays", "feedback.gitHistory"),
    ],
)
def test_what_names_a_file_or_a_host_costs_the_machine_or_deletes_is_not_taken_from_a_workspace(
    key: str,
) -> None:
    """What comes with a checkout may not choose a model or where code is sent, nor have feedback deleted."""
    for raw in ({key: "http://evil.example"}, nested(key, "http://evil.example")):
        settings, (problem,) = parse(raw)
        assert settings == Settings()
        assert f"lspCalib.{key.partition('.')[0]}" in problem
    assert parse({"trusted": nested(key, "http://evil.example")}) == (Settings(), [])


def test_the_trusted_part_is_read_apart() -> None:
    assert parse({"trusted": {"model": "x"}}) == (Settings(), [])
    assert parse_trusted({"model": "x", "threads": 3, "gpuLayers": 9}) == (Trusted("x", 3, 9), [])
    remote = {"url": "https://host/v1", "model": "m", "keyFile": "~/key"}
    expected = Trusted(mlock=True, remote_url="https://host/v1", remote_model="m", remote_key_file="~/key")
    assert parse_trusted({"mlock": True, "remote": remote}) == (expected, [])
    assert parse_trusted({"gpuLayers": "auto"}) == (Trusted(), [])
    assert parse_trusted({"gpuLayers": 0}) == (Trusted(gpu_layers=0), [])
    assert parse_trusted({"feedback": {"retentionDays": 9}}) == (Trusted(retention_days=9), [])
    for days in (0, -1, 36_501, 1.5, "9", True, []):
        trusted, problems = parse_trusted({"feedback": {"retentionDays": days}})
        assert trusted == Trusted()
        assert len(problems) == 1
    trusted, problems = parse_trusted({"model": 1, "threads": -1, "gpuLayers": True, "hover": 1})
    assert trusted == Trusted()
    assert [problem.split()[0] for problem in problems] == [
        f"lspCalib.trusted.{key}" for key in ("model", "threads", "gpuLayers", "hover")
    ]


@pytest.mark.parametrize("key", sorted(WORKSPACE.keys() - TRUSTED.keys()))
def test_a_setting_of_the_editor_in_the_users_file_is_named_as_such(home: Path, key: str) -> None:
    """It is no typo: the message says where it belongs."""
    said = f"config.toml: {key} is a setting of your editor (`lspCalib.{key}`); config.toml cannot set it."
    table, _, last = key.rpartition(".")
    for text in (f"{key} = false", f"[{table}]\n{last} = false" if table else f"{key} = 1"):
        (home / "config.toml").write_text(f"{text}\n")
        assert resolve_trusted(Trusted(), Trusted()) == (Trusted(), [said])
    _, problems = parse_trusted({key: False})
    assert problems == [
        f"lspCalib.trusted.{key} is a setting of your editor (`lspCalib.{key}`); "
        "lspCalib.trusted cannot set it."
    ]


def test_a_typo_in_the_users_file_is_named_as_such(home: Path) -> None:
    (home / "config.toml").write_text("hidebelow = 0.2\n[feedback]\nenable = false\n")
    _, problems = resolve_trusted(Trusted(), Trusted())
    assert problems == [
        "config.toml: hidebelow is not a setting; it is ignored.",
        "config.toml: feedback.enable is not a setting; it is ignored.",
    ]


def test_command_line_over_environment_over_editor_over_the_users_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = home / "config.toml"
    assert resolve_trusted(Trusted(), Trusted()) == (Trusted(), [])
    config.write_text('model = "file"\nthreads = 1\ngpuLayers = 1\n')
    assert resolve_trusted(Trusted(), Trusted()) == (Trusted("file", 1, 1), [])
    assert resolve_trusted(Trusted(), Trusted("editor", 2)) == (Trusted("editor", 2, 1), [])
    monkeypatch.setenv("LSP_CALIB_MODEL", "environment")
    assert resolve_trusted(Trusted(), Trusted("editor", 2)) == (Trusted("environment", 2, 1), [])
    assert resolve_trusted(Trusted("command", 3), Trusted("editor", 2)) == (Trusted("command", 3, 1), [])


# A value that is not the default, by key; the default is the other.
SET_BACK = {
    "threads": (4, 0),
    "gpuLayers": (7, "auto"),
    "mlock": (True, False),
    "feedback.retentionDays": (30, 365),
}


@pytest.mark.parametrize("key", SET_BACK)
def test_a_higher_place_sets_a_value_back_to_the_default(home: Path, key: str) -> None:
    other, default = SET_BACK[key]
    (home / "config.toml").write_text(f"{key} = {json.dumps(other)}\n")
    name = TRUSTED[key].attribute
    editor, problems = parse_trusted(nested(key, default))
    assert problems == []
    assert editor.given == {name}
    assert getattr(resolve_trusted(Trusted(), editor)[0], name) == getattr(Trusted(), name)
    above, _ = parse_trusted({key: default})
    below, _ = parse_trusted({key: other})
    assert getattr(resolve_trusted(above, below)[0], name) == getattr(Trusted(), name)
    # Unset is not the default, nor is what cannot be used.
    for raw in ({}, {key: None}, {key: "nonsense"}):
        assert getattr(resolve_trusted(Trusted(), parse_trusted(raw)[0])[0], name) == other


def test_a_command_line_that_says_what_was_given_sets_it_back(home: Path) -> None:
    (home / "config.toml").write_text("threads = 4\n")
    assert resolve_trusted(Trusted(threads=0), Trusted())[0].threads == 4, "the option was not given"
    assert resolve_trusted(Trusted(given=frozenset({"threads"})), Trusted())[0].threads == 0


def test_one_false_is_enough_for_what_reads_the_users_lines(home: Path) -> None:
    key = "feedback.gitHistory"
    name = TRUSTED[key].attribute
    yes, no = parse_trusted({key: True})[0], parse_trusted({key: False})[0]
    assert getattr(resolve_trusted(Trusted(), yes)[0], name) is True
    assert getattr(resolve_trusted(yes, no)[0], name) is False
    (home / "config.toml").write_text(f"{key} = false\n")
    assert getattr(resolve_trusted(yes, yes)[0], name) is False


def test_an_initial_setting_is_set_back_to_auto() -> None:
    base, _ = parse({"debounceMs": 50})
    assert parse({}, base)[0].debounce_ms == 50
    assert parse({"debounceMs": None}, base)[0].debounce_ms == 50
    assert parse({"debounceMs": "auto"}, base) == (Settings(), [])


def test_a_remote_server_is_found_in_the_environment_and_the_users_file(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config.toml").write_text(
        'mlock = true\n[remote]\nurl = "https://file/v1"\nmodel = "file"\nkeyFile = "~/key"\n'
    )
    of_file = Trusted(mlock=True, remote_url="https://file/v1", remote_model="file", remote_key_file="~/key")
    assert resolve_trusted(Trusted(), Trusted()) == (of_file, [])
    monkeypatch.setenv("LSP_CALIB_REMOTE_URL", "http://localhost:8080")
    monkeypatch.setenv("LSP_CALIB_REMOTE_MODEL", "environment")
    trusted, problems = resolve_trusted(
        Trusted(), Trusted(remote_url="https://editor", remote_model="editor")
    )
    assert (trusted.remote_url, trusted.remote_model) == ("http://localhost:8080", "environment")
    assert problems == []
    choice = engine_choice(attrs.evolve(trusted, model_idle_seconds=3.0))
    assert choice == EngineChoice(linger=3.0, remote=Remote("http://localhost:8080", "environment", None)), (
        "the key is the file's server's"
    )
    assert engine_choice(Trusted("m", 2, 1)) == EngineChoice("m", 2, 1, linger=10.0)


def test_a_model_that_is_named_above_a_remote_server_is_asked_on_this_machine(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or text of the user's files would leave the machine although the command line names a local model."""
    (home / "config.toml").write_text('model = "m"\n[remote]\nurl = "http://host/v1"\nkeyFile = "/key"\n')
    beside, _ = resolve_trusted(Trusted(), Trusted())
    assert engine_choice(beside).remote is not None
    for command_line, editor in ((Trusted(model="mine"), Trusted()), (Trusted(), Trusted(model="mine"))):
        trusted, problems = resolve_trusted(command_line, editor)
        assert (trusted.model, trusted.remote_url, trusted.remote_key_file) == ("mine", None, None)
        assert problems == [], "nothing is sent in the clear"
    assert resolve_trusted(Trusted(), Trusted(model=""))[0].remote_url == "http://host/v1", "none is named"
    monkeypatch.setenv("LSP_CALIB_REMOTE_URL", "https://host/v1")
    assert resolve_trusted(Trusted(), Trusted(model="mine"))[0].remote_url == "https://host/v1"
    assert resolve_trusted(Trusted(model="mine"), Trusted())[0].remote_url is None


@pytest.mark.parametrize(
    "url", ["localhost:8080", "ftp://host", "http://me:hunter2@host", "https://h?key=hunter2"]
)
def test_an_address_that_cannot_be_one_is_named_without_what_may_be_a_secret(
    home: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv("LSP_CALIB_REMOTE_URL", url)
    trusted, (problem,) = resolve_trusted(Trusted(), Trusted())
    assert trusted == Trusted()
    assert "remote.url" in problem
    assert "hunter2" not in problem
    assert (home / "config.toml").exists() is False


def test_code_that_travels_in_the_clear_is_worth_a_warning(home: Path) -> None:
    (home / "config.toml").write_text('remote.url = "http://model.lan:8080/v1"\n')
    trusted, (problem,) = resolve_trusted(Trusted(), Trusted())
    assert trusted.remote_url == "http://model.lan:8080/v1"
    assert "unencrypted" in problem


@pytest.mark.parametrize(
    "content", [b"model = ", b"\xff\xfe", b"threads = 'many'", b"colour = 1", b"[model]\na = 1"]
)
def test_a_wrong_user_file_is_named_and_does_not_stop_anything(home: Path, content: bytes) -> None:
    (home / "config.toml").write_bytes(content)
    trusted, problems = resolve_trusted(Trusted(), Trusted(threads=2))
    assert trusted == Trusted(threads=2)
    assert len(problems) == 1


keys = st.sampled_from([part for key in KEYS for part in (key, *key.split("."))]) | st.text(max_size=6)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["auto", "off"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


@given(json_values)
def test_any_json_gives_settings_that_fit_and_messages(raw: object) -> None:
    settings, problems = parse(raw)
    assert all(problem.startswith("lspCalib") for problem in problems)
    # What was taken is itself acceptable: nothing wrong slipped through.
    for key, (name, (good, _)) in KEYS.items():
        value = getattr(settings, name)
        free = ("exclude", "languages", "hideBelow", "debounceMs", "hover.budgetMs", "modelIdleSeconds")
        free += tuple(key for key in KEYS if key.startswith("tiers."))
        assert value in good or key in free or (key == "comments" and value is None)
    assert 0 <= settings.hover_budget_ms <= 60_000
    assert 0 <= settings.model_idle_seconds <= 3600
    assert settings.hide_below is None or 0 <= settings.hide_below < 1
    assert settings.accept_from is None or 0 <= settings.accept_from <= 1
    trusted, _ = parse_trusted(raw)
    assert trusted.model is None or isinstance(trusted.model, str)


def test_an_empty_table_of_lua_is_an_empty_object() -> None:
    """Neovim sends `{}` as a list where it does not know better."""
    for empty in ([], {"tiers": []}, {"diagnostics": {"severity": []}}):
        assert parse(empty) == (Settings(), [])
    assert parse({"exclude": []}) == (Settings(), [])
    assert parse([1])[1]
