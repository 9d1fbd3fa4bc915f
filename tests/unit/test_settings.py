"""Settings: each key, where it counts, and what becomes of wrong ones: they stop no server."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from settings_rendering import vscode_sections
from write_settings import EXTENSION, REFERENCE, extension, reference

from lsp_calib.calibration.certificates import AS_BEFORE, Promise
from lsp_calib.calibration.tiers import (
    PRESETS,
    SUMMARY_PRESETS,
    Policy,
    RiskPolicy,
    TierPolicy,
    policy_of,
    summary_policy,
)
from lsp_calib.cli import main
from lsp_calib.commands.calibrators import wish_of
from lsp_calib.commands.engine import estimator_for, settings_in_force
from lsp_calib.completion.service import HIDE_BELOW
from lsp_calib.inference.choice import EngineChoice, Remote
from lsp_calib.server.app import CalibServer
from lsp_calib.settings import (
    REMOVED,
    SETTINGS,
    Settings,
    engine_choice,
    in_workspace,
    parse,
    resolve,
    tier_policy,
    without_value,
)

# Those that fit, and those that do not.
Values = tuple[list[Any], list[Any]]
SWITCH: Values = ([True, False], [1, 0, "true", [], {}, 1.0])
SHARE: Values = ([0, 1, 0.5, 0.0, 1.0], [-0.1, 1.1, "0.5", True, float("nan"), [], 10**400])
TEXT: Values = (["x", ""], [1, True, [], {}])
KEYS: dict[str, Values] = {
    "inlineCompletion.enabled": SWITCH,
    "completion.enabled": (["auto", True, False], [1, 0, "on", "Auto", [], {}]),
    "window": (["auto", "small", "large"], ["medium", True, 1, [], 3200]),
    "prefetch.enabled": SWITCH,
    "languages": (
        [[], ["*"], ["python", "c++", "*"], ["a-b.c_d"]],
        ["python", {"python": True}, [1], [None], [""], ["a b"], ["x" * 65], ["!go"], True, 1],
    ),
    "comments": (["on", "hand", "off"], ["On", "auto", "", True, False, 0, [], {}]),
    "hideBelow": ([False, 0, 0.0, 0.2, 0.999], [True, 1, 1.0, -0.1, 1.1, 20, "0.2", float("nan"), [], {}]),
    "sure": (["mark", "cut", "off"], ["Mark", "", 1, True, []]),
    "nextEdit.enabled": SWITCH,
    "hover.enabled": SWITCH,
    "codeLens.enabled": SWITCH,
    "diagnostics.enabled": SWITCH,
    "tiers.policy": (["threshold", "risk"], ["Risk", "", 1, True, []]),
    "tiers.preset": (["cautious", "balanced", "lenient"], ["bold", 1, True, []]),
    "tiers.acceptFrom": SHARE,
    "tiers.rejectBelow": SHARE,
    "tiers.overrides": (
        [[], [{"language": "rust", "acceptFrom": 0.9}], [{"path": "crypto/**", "rejectBelow": 1}]],
        [
            *("rust", {"language": "rust"}, [{"language": "rust"}], [{"acceptFrom": 0.9}], [1], [None]),
            *([{"path": "", "acceptFrom": 0.9}], [{"path": "a", "acceptFrom": 1.5}], True, 1),
            *([{"path": "a", "acceptFrom": True}], [{"path": "a", "acceptFrom": 1, "policy": "risk"}]),
            [{"language": "*", "acceptFrom": 0.9}],
        ],
    ),
    "confidence.measure": (["best", "geometric-mean"], ["Best", "geometric-mean-first-4", "", 1, []]),
    "autoRefit": SWITCH,
    "feedback.enabled": SWITCH,
    "feedback.retentionDays": ([1, 9, 36_500], [0, -1, 36_501, 1.5, "9", True, []]),
    "exclude": (
        [[], ["*.min.js"], ["/generated/**", "*.{a,b}"]],
        ["*.js", {"*.js": True}, [1], [None], ["!keep.py"], [""], ["/"], ["x" * 401], True, 1],
    ),
    "model": TEXT,
    "threads": ([0, 4, 512], [-1, 513, 1.5, "4", True, [], {}]),
    "gpuLayers": (["auto", 0, 100_000], [-1, 100_001, 1.5, "all", True, [], {}]),
    "cacheMb": ([0, 250, 100_000], [-1, 100_001, 1.5, "250", True, [], {}]),
    "remote.url": (["https://host/v1", "http://localhost:8080"], ["localhost:8080", "ftp://host", 1, []]),
    "remote.model": TEXT,
    "remote.keyFile": TEXT,
}
GOOD = [(key, value) for key, (good, _) in KEYS.items() for value in good]
BAD = [(key, value) for key, (_, bad) in KEYS.items() for value in bad]
FREE = {"languages", "exclude", "inlineCompletion.enabled"}


def nested(key: str, value: object) -> dict[str, Any]:
    for part in reversed(key.split(".")):
        value = {part: value}
    assert isinstance(value, dict)
    return value


def test_every_setting_is_tested_here_and_there_are_few() -> None:
    assert set(KEYS) == set(SETTINGS)
    assert len(SETTINGS) <= 30
    fields = {one.name for one in attrs.fields(Settings)}
    assert {one.attribute for one in SETTINGS.values()} == fields - {"given"}
    assert {key for key, setting in SETTINGS.items() if setting.in_workspace} == FREE


class TestWrittenElsewhere:
    """What is made of the table, and what has to agree with it."""

    @pytest.mark.parametrize(
        ("path", "written"), [(REFERENCE, reference), (EXTENSION, extension)], ids=["reference", "VS Code"]
    )
    def test_the_reference_and_the_extension_say_what_the_table_says(
        self, path: Path, written: Callable[[str], str]
    ) -> None:
        text = path.read_text("utf-8")
        assert text == written(text), "run `make settings`"

    def test_vs_code_takes_from_a_workspace_what_the_server_does(self) -> None:
        properties = [one for section in vscode_sections({}) for one in section["properties"].items()]
        scopes = {name: schema["scope"] for name, schema in properties}
        # A server has one value for all folders, except of what each of them excludes.
        assert scopes.pop("lspCalib.exclude") == "resource"
        assert {name for name, scope in scopes.items() if scope == "window"} == {
            f"lspCalib.{key}" for key in FREE - {"exclude"}
        }
        assert {name for name, scope in scopes.items() if scope == "machine"} == {
            name for name in scopes if name.startswith("lspCalib.trusted.")
        }

    def test_vs_code_shows_the_servers_default_or_says_that_nothing_is_set(self) -> None:
        """An enumeration also offers to set nothing; every other value is one that the server takes."""
        shown = {name: one for section in vscode_sections({}) for name, one in section["properties"].items()}
        for key, setting in SETTINGS.items():
            schema = shown.get(f"lspCalib.{key}") or shown[f"lspCalib.trusted.{key}"]
            default, unset = schema["default"], (None, "")
            if default not in unset:
                read, problem = setting.kind.read(default)
                assert problem == ""
                assert read == (HIDE_BELOW if key == "hideBelow" else setting.default)
            assert [
                one for one in schema.get("enum", ()) if one is not None and setting.kind.read(one)[1]
            ] == []

    def test_each_value_of_an_enumeration_has_a_name(self) -> None:
        for setting in SETTINGS.values():
            assert len(setting.choices) == len(setting.kind.schema.get("enum", ())), setting.key
        titles = [setting.title for setting in SETTINGS.values()]
        assert len({*titles}) == len(titles)

    def test_an_option_of_the_command_line_takes_what_its_setting_takes(self) -> None:
        options = {name: one.type for one in main.commands["serve"].params for name in one.opts}
        for setting in SETTINGS.values():
            if setting.option:
                kind = options[setting.option]
                limits = (kind.min, kind.max) if isinstance(kind, click.IntRange) else (None, None)
                schema = setting.kind.schema
                assert limits == (schema.get("minimum"), schema.get("maximum")), setting.option


class TestReading:
    def test_an_empty_object_is_a_complete_configuration(self) -> None:
        # Neovim sends `{}` as a list where it does not know better.
        for nothing in ({}, None, [], {"tiers": []}, {"exclude": []}):
            assert parse(nothing) == (Settings(), [])
        assert parse([1])[1]

    @pytest.mark.parametrize(("key", "value"), GOOD)
    def test_a_value_that_fits_is_taken_nested_or_dotted(self, key: str, value: object) -> None:
        read, _ = SETTINGS[key].kind.read(value)
        if value != "auto" and key != "tiers.overrides":
            assert read == (tuple(value) if isinstance(value, list) else value)
        expected = Settings(**{SETTINGS[key].attribute: read})
        for raw in (nested(key, value), {key: value}):
            settings, problems = parse(raw)
            assert (settings, problems) == (expected, [])
            assert settings.given == {SETTINGS[key].attribute}

    @pytest.mark.parametrize(("key", "value"), BAD, ids=lambda value: str(value)[:20])
    def test_a_value_that_does_not_fit_is_named_and_the_default_is_used(
        self, key: str, value: object
    ) -> None:
        settings, (problem,) = parse(nested(key, value))
        assert settings == Settings()
        assert f"lspCalib.trusted.{key} must be " in problem

    @pytest.mark.parametrize("key", KEYS)
    def test_null_means_not_set(self, key: str) -> None:
        assert parse(nested(key, None)) == (Settings(), [])

    def test_one_wrong_key_does_not_spoil_the_others(self) -> None:
        settings, problems = parse({"hover": {"enabled": False}, "window": "huge", "tiers.preset": "lenient"})
        assert settings == Settings(hover=False, preset="lenient")
        assert len(problems) == 1

    @pytest.mark.parametrize(
        ("raw", "key"),
        [
            ({"colour": 1}, "colour"),
            ({"hover": {"colour": 1}}, "hover.colour"),
            ({"hover.colour": 1}, "hover.colour"),
            ({"hover": True}, "hover"),
            ({"": 1}, ""),
            ({"diagnostics": {"severity": "off"}}, "diagnostics.severity"),
        ],
    )
    def test_an_unknown_key_is_named_and_ignored(self, raw: dict[str, Any], key: str) -> None:
        assert parse(raw) == (Settings(), [f"lspCalib.trusted.{key} is not a setting; it is ignored."])
        own = Settings(threads=3)
        assert in_workspace(raw, own) == (own, [f"lspCalib.{key} is not a setting; it is ignored."])

    @pytest.mark.parametrize("raw", [[1], "text", 1, True, [{}]])
    def test_something_else_than_an_object_is_named(self, raw: object) -> None:
        for settings, (problem,) in (parse(raw), in_workspace(raw, Settings())):
            assert settings == Settings()
            assert "must be an object" in problem

    def test_thresholds_in_the_wrong_order_are_named_and_the_presets_are_used(self) -> None:
        settings, (problem,) = parse({"tiers": {"acceptFrom": 0.2, "rejectBelow": 0.6}})
        assert settings == Settings()
        assert "rejectBelow 0.6 is above acceptFrom 0.2" in problem

    def test_of_a_list_with_faults_what_is_right_still_counts(self) -> None:
        settings, (problem,) = parse({"exclude": ["secret/*", 7, "!x", "other"]})
        assert settings.exclude == ("secret/*", "other")
        assert ".exclude" in problem
        settings, (problem,) = parse({"exclude": [f"{n}.py" for n in range(5000)]})
        assert len(settings.exclude) == 200
        assert len(problem) < 300

    @pytest.mark.parametrize(
        "value", ["sk-secret", ["sk-secret", 1], {"a": "sk-secret; \n"}, "x" * 70 + "sk-secret"]
    )
    def test_a_message_can_be_had_without_the_value_that_it_repeats(self, value: object) -> None:
        _, (problem,) = parse({"threads": value})
        assert "sk-" in problem
        assert "sk-" not in without_value(problem)
        assert without_value(problem).startswith("lspCalib.trusted.threads must be ")

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.just("auto"),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from([part for key in (*KEYS, *REMOVED) for part in (key, *key.split("."))]),
                    inner,
                    max_size=4,
                )
            ),
            max_leaves=20,
        )
    )
    def test_any_json_gives_settings_that_fit_and_messages(self, raw: object) -> None:
        for settings, problems in (parse(raw), in_workspace(raw, Settings())):
            assert all("lspCalib" in problem for problem in problems)
            # What was taken is itself acceptable: nothing wrong slipped through.
            for setting in SETTINGS.values():
                value = getattr(settings, setting.attribute)
                if value != setting.default and setting.key != "tiers.overrides":
                    assert setting.kind.read([*value] if isinstance(value, tuple) else value)[1] == ""


class TestRemoved:
    @pytest.mark.parametrize("key", [key for key in REMOVED if '"' not in key])
    @pytest.mark.parametrize("value", [False, 1, "x", [1]])
    def test_a_removed_setting_is_named_once_with_what_holds_now(self, key: str, value: object) -> None:
        said = f"{key} was removed. {REMOVED[key]}"
        for raw in (nested(key, value), {key: value}):
            assert parse(raw, "config.toml: ") == (Settings(), [f"config.toml: {said}"])
            assert in_workspace(raw, Settings()) == (Settings(), [f"lspCalib.{said}"])

    @pytest.mark.parametrize(("key", "value"), [("tiers.policy", "cost"), ("confidence.measure", "total")])
    def test_a_removed_value_is_named_with_what_holds_now(self, key: str, value: str) -> None:
        settings, (problem,) = parse({key: value})
        assert settings == Settings()
        assert problem.startswith(f'lspCalib.trusted.{key} "{value}" was removed. ')

    def test_no_setting_is_both(self) -> None:
        assert not REMOVED.keys() & SETTINGS.keys()


class TestWorkspace:
    """A workspace comes with a checkout, which nobody has to have read."""

    @pytest.mark.parametrize("key", sorted(KEYS.keys() - FREE))
    def test_what_only_the_user_may_choose_does_not_count_and_is_named_once(self, key: str) -> None:
        """No model, address, file or command; no milder tier; no mark less; no feedback deleted."""
        own = Settings(preset="cautious", model="mine")
        for value in KEYS[key][0]:
            for raw in (nested(key, value), {key: value}, {**nested(key, value), key: value}):
                settings, (problem,) = in_workspace(raw, own)
                assert settings == own
                assert problem.count(key) == 1
                assert "languages, exclude" in problem.replace("inlineCompletion.enabled, ", "")
                assert "config.toml" in problem

    def test_several_are_named_in_one_sentence_and_what_is_trusted_is_read_apart(self) -> None:
        raw = {"tiers": {"preset": "lenient"}, "model": "/tmp/evil.gguf", "languages": ["go"]}
        settings, (problem,) = in_workspace(raw | {"trusted": {"model": "x"}}, Settings())
        assert settings == Settings(languages=("go",))
        assert "tiers.preset, model" in problem

    def test_it_chooses_languages_and_turns_ghost_text_off_or_on(self) -> None:
        own = Settings(languages=("go",), inline_completion=False, threads=2)
        raw = {"languages": ["rust"], "inlineCompletion": {"enabled": True}}
        assert in_workspace(raw, own) == (Settings(languages=("rust",), threads=2), [])
        assert in_workspace({}, own) == (own, [])
        settings, (problem,) = in_workspace({"languages": "rust"}, own)
        assert settings == own
        assert problem.startswith("lspCalib.languages must be ")

    def test_it_can_exclude_more_and_take_nothing_back(self) -> None:
        own = Settings(exclude=("private/**",))
        for raw in ({"exclude": []}, {"exclude": None}, {"exclude": "none"}, {"exclude": ["!private/**"]}):
            assert in_workspace(raw, own)[0].exclude == ("private/**",)
        more, problems = in_workspace({"exclude": ["*.gen.py", "private/**"]}, own)
        assert more.exclude == ("private/**", "*.gen.py")
        assert problems == []


class TestPlaces:
    """Command line over environment over editor over the user's file."""

    def test_the_first_place_that_sets_a_value_counts(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        editor = Settings(model="editor", threads=2)
        assert resolve(Settings()) == (Settings(), [])
        (home / "config.toml").write_text('model = "file"\nthreads = 1\n[tiers]\npreset = "lenient"\n')
        assert resolve(Settings()) == (Settings(model="file", threads=1, preset="lenient"), [])
        both = Settings(model="editor", threads=2, preset="lenient")
        assert resolve(Settings(), editor) == (both, [])
        monkeypatch.setenv("LSP_CALIB_MODEL", "environment")
        assert resolve(Settings(), editor)[0].model == "environment"
        assert resolve(Settings(model="command"), editor)[0] == attrs.evolve(both, model="command")

    @pytest.mark.parametrize("key", [key for key, setting in SETTINGS.items() if setting.variable])
    @pytest.mark.usefixtures("home")
    def test_a_setting_is_taken_from_its_variable(self, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
        value = "https://host/v1"
        monkeypatch.setenv(SETTINGS[key].variable, value)
        assert resolve(Settings()) == (Settings(**{SETTINGS[key].attribute: value}), [])

    @pytest.mark.parametrize(
        ("key", "other", "default"),
        [("threads", 4, 0), ("gpuLayers", 7, "auto"), ("autoRefit", False, True), ("sure", "off", "mark")],
    )
    def test_a_higher_place_sets_a_value_back_to_the_default(
        self, home: Path, key: str, other: Any, default: Any
    ) -> None:
        (home / "config.toml").write_text(f"{key} = {json.dumps(other)}\n")
        name = SETTINGS[key].attribute
        editor, _ = parse({key: default})
        assert getattr(resolve(Settings(), editor)[0], name) == getattr(Settings(), name)
        assert getattr(resolve(editor, parse({key: other})[0])[0], name) == getattr(Settings(), name)
        # Unset is not the default, nor is what cannot be used.
        for raw in ({}, {key: None}, {key: "nonsense"}):
            assert getattr(resolve(Settings(), parse(raw)[0])[0], name) == other

    def test_lists_of_all_places_count_together(self, home: Path) -> None:
        (home / "config.toml").write_text(
            'exclude = ["private/**", "a"]\n[tiers]\noverrides = [{ language = "rust", acceptFrom = 0.9 }]\n'
        )
        raw = {"exclude": ["b", "a"], "tiers": {"overrides": [{"path": "crypto/**", "acceptFrom": 0.95}]}}
        settings, problems = resolve(Settings(), parse(raw)[0])
        assert sorted(settings.exclude) == ["a", "b", "private/**"]
        assert [one.accept_from for one in settings.overrides] == [0.95, 0.9]
        assert problems == []

    def test_a_typo_in_the_users_file_is_named(self, home: Path) -> None:
        (home / "config.toml").write_text("hidebelow = 0.2\n[feedback]\nenable = false\n")
        named = [
            f"config.toml: {key} is not a setting; it is ignored." for key in ("hidebelow", "feedback.enable")
        ]
        assert resolve(Settings())[1] == named

    @pytest.mark.parametrize(
        "content", [b"model = ", b"\xff\xfe", b"threads = 'many'", b"colour = 1", b"[model]\na = 1"]
    )
    def test_a_wrong_user_file_is_named_and_does_not_stop_anything(self, home: Path, content: bytes) -> None:
        (home / "config.toml").write_bytes(content)
        settings, problems = resolve(Settings(), Settings(threads=2))
        assert settings == Settings(threads=2)
        assert len(problems) == 1


class TestRemoteServer:
    def test_the_key_is_for_the_server_that_it_was_named_with(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        remote = 'url = "https://file/v1"\nmodel = "file"\nkeyFile = "~/key"\n'
        (home / "config.toml").write_text(f"[remote]\n{remote}")
        of_file = Settings(remote_url="https://file/v1", remote_model="file", remote_key_file="~/key")
        assert resolve(Settings()) == (of_file, [])
        monkeypatch.setenv("LSP_CALIB_REMOTE_URL", "http://localhost:8080")
        settings, problems = resolve(Settings(), Settings(remote_url="https://editor", remote_model="editor"))
        assert (settings.remote_model, problems) == ("editor", [])
        assert engine_choice(settings) == EngineChoice(remote=Remote("http://localhost:8080", "editor", None))
        chosen = Settings(model="m", threads=2, gpu_layers=1)
        assert engine_choice(chosen) == EngineChoice("m", 2, 1)

    def test_a_model_that_is_named_above_a_remote_server_is_asked_on_this_machine(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Or the user's text would leave the machine although the command line names a local model."""
        (home / "config.toml").write_text('model = "m"\n[remote]\nurl = "http://host/v1"\nkeyFile = "/key"\n')
        assert engine_choice(resolve(Settings())[0]).remote is not None
        mine = Settings(model="mine")
        for settings, problems in (resolve(mine), resolve(Settings(), mine)):
            assert (settings.model, settings.remote_url, settings.remote_key_file) == ("mine", None, None)
            assert problems == [], "nothing is sent in the clear"
        assert resolve(Settings(), Settings(model=""))[0].remote_url == "http://host/v1", "none is named"
        monkeypatch.setenv("LSP_CALIB_REMOTE_URL", "https://host/v1")
        assert resolve(Settings(), mine)[0].remote_url == "https://host/v1"
        assert resolve(mine)[0].remote_url is None

    @pytest.mark.parametrize(
        "url", ["localhost:8080", "ftp://host", "http://me:hunter2@host", "https://h?key=hunter2"]
    )
    @pytest.mark.usefixtures("home")
    def test_an_address_that_cannot_be_one_is_named_without_what_may_be_a_secret(
        self, monkeypatch: pytest.MonkeyPatch, url: str
    ) -> None:
        monkeypatch.setenv("LSP_CALIB_REMOTE_URL", url)
        settings, (problem,) = resolve(Settings())
        assert settings == Settings()
        assert "remote.url" in problem
        assert "hunter2" not in problem

    def test_code_that_travels_in_the_clear_is_worth_a_warning(self, home: Path) -> None:
        (home / "config.toml").write_text('remote.url = "http://model.lan:8080/v1"\n')
        settings, (problem,) = resolve(Settings())
        assert settings.remote_url == "http://model.lan:8080/v1"
        assert "unencrypted" in problem


MILD = ("reject", "review", "accept")
presets = st.none() | st.sampled_from([*PRESETS])
shares = st.none() | st.floats(0.0, 1.0)


class TestTiers:
    @given(st.sampled_from([None, "threshold", "risk"]), presets, shares, shares, st.floats(0.0, 1.0))
    def test_settings_only_make_the_tiers_of_summaries_stricter(
        self, policy: Any, preset: Any, accept: float | None, reject: float | None, p: float
    ) -> None:
        """Whatever is wanted of lines, no summary gets a milder tier than by the default."""
        tier, _ = summary_policy(policy_of(policy, preset, accept, reject)).decide(p, source="shipped")
        usual, _ = SUMMARY_PRESETS["balanced"].decide(p, source="shipped")
        assert MILD.index(tier.value) <= MILD.index(usual.value)

    def test_the_tiers_of_summaries_are_their_own(self) -> None:
        """What a preset says of lines is not said of summaries; what a user has raised is."""

        def tiers(policy: Policy) -> list[str]:
            of_summaries = summary_policy(policy)
            return [of_summaries.decide(p, source="shipped")[0].value for p in (0.19, 0.21, 0.59, 0.61, 0.9)]

        usual = ["reject", "review", "review", "accept", "accept"]
        assert tiers(policy_of()) == usual
        assert tiers(policy_of(preset="lenient")) == usual
        assert tiers(policy_of(accept_from=0.3, reject_below=0.0)) == usual
        assert tiers(policy_of(preset="cautious")) == ["reject", "reject", "review", "review", "accept"]
        assert tiers(policy_of(accept_from=0.8)) == ["reject", "review", "review", "review", "accept"]
        assert tiers(policy_of("risk")) == ["reject", "review", "review", "review", "review"]

    @given(
        threshold=st.floats(0.01, 0.99),
        preset=st.sampled_from([*PRESETS]),
        which=st.sampled_from(["accept_from", "reject_below"]),
    )
    def test_a_threshold_beyond_the_presets_other_one_takes_that_along(
        self, threshold: float, preset: str, which: str
    ) -> None:
        policy = policy_of(preset=preset, **{which: threshold})  # type: ignore[arg-type]
        assert isinstance(policy, TierPolicy)
        assert getattr(policy, which) == threshold
        assert policy.reject_below <= policy.accept_from

    def test_the_preset_says_what_a_certificate_promises(self) -> None:
        for preset, limits in {"cautious": (0.05, 0.05), None: (0.1, 0.1), "lenient": (0.2, 0.2)}.items():
            policy = policy_of("risk", preset)
            assert isinstance(policy, RiskPolicy)
            assert (policy.risk, policy.delta) == limits
        assert policy_of("risk", accept_from=0.95).thresholds[0] == PRESETS["balanced"].reject_below

    def test_commands_follow_the_users_own_policy(self, home: Path) -> None:
        """Without one, a refit goes on as the editor last asked, and tiers are by threshold."""
        assert tier_policy(Settings()) == PRESETS["balanced"]
        assert wish_of(Settings()) == "as before"
        assert wish_of(Settings(policy="threshold")) is None
        assert isinstance(estimator_for(settings_in_force()).policy, TierPolicy)
        (home / "config.toml").write_text('[tiers]\npolicy = "risk"\npreset = "lenient"\n')
        settings = settings_in_force(Settings(), pytest.fail)
        assert wish_of(settings) == Promise(risk=0.2, delta=0.2, measure=AS_BEFORE)
        policy = estimator_for(settings).policy
        assert isinstance(policy, RiskPolicy)
        assert policy.risk == 0.2


class AsksTwice(CalibServer):
    """first: the first answer; a second, to another request, excludes documents. seconds: until
    each answer."""

    client_capabilities: Any = SimpleNamespace(workspace=SimpleNamespace(configuration=True))

    def __init__(self, first: object, seconds: tuple[float, float]) -> None:
        super().__init__(Settings())
        self.answers = list(zip((first, {"exclude": ["secret/**"]}), seconds, strict=True))

    async def workspace_configuration_async(self, *_: Any) -> list[object]:  # type: ignore[override]
        answer, seconds = self.answers.pop(0)
        await asyncio.sleep(seconds)
        return [answer]


async def test_an_answer_to_an_earlier_request_does_not_undo_a_later_one() -> None:
    """A document that the user has just excluded would be shown to the model again."""
    server: Any = AsksTwice({"exclude": []}, (0.1, 0.0))
    earlier = asyncio.create_task(server.fetch_settings())
    await asyncio.sleep(0.01)
    assert await server.fetch_settings()
    assert server.settings.exclude == ("secret/**",)
    assert await earlier
    assert server.settings.exclude == ("secret/**",)
    assert server.problems == []


async def test_an_answer_holds_while_a_later_request_waits_for_its_own() -> None:
    """The session starts after the first answer: a document that it excludes would be shown to the model."""
    server: Any = AsksTwice({"exclude": ["own/**"]}, (0.01, 0.1))
    earlier = asyncio.create_task(server.fetch_settings())
    later = asyncio.create_task(server.fetch_settings())
    assert await earlier
    assert server.settings.exclude == ("own/**",)
    assert await later
    assert server.settings.exclude == ("secret/**",)
