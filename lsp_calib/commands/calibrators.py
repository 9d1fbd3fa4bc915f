"""`lsp-calib calibrators`: which calibrators there are, what one of them weighs, in words; and
`rollback`, `export`, `import`: take back what was learned, or share it. `lsp-calib refit`: new ones from the
feedback store."""

from __future__ import annotations

import datetime
import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import attrs
from rich.table import Table
from rich.text import Text

from lsp_calib.badges import counted
from lsp_calib.calibration.calibrators.calibrator import Calibrator, Curve, is_plain
from lsp_calib.calibration.calibrators.calibrator_store import (
    CalibratorStore,
    Listed,
    find,
    in_words,
)
from lsp_calib.calibration.calibrators.lent import carried_from, note
from lsp_calib.calibration.calibrators.purpose import Purpose
from lsp_calib.calibration.calibrators.refit import COMMITS, FEEDBACK
from lsp_calib.calibration.certificates import AS_BEFORE, Promise, Wish
from lsp_calib.calibration.tiers import RiskPolicy
from lsp_calib.calibration.validation import Interval
from lsp_calib.characters import in_one_line
from lsp_calib.commands.engine import Say, layouts_for, settings_in_force, with_engine
from lsp_calib.commands.feedback import feedback_store
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.confidence.features import FEATURES, SUMMARY_FEATURES
from lsp_calib.edits.offers import shipped_curve
from lsp_calib.errors import SettingsError
from lsp_calib.feedback.importing import OTHERS, Imported, import_calibrator, read_foreign
from lsp_calib.feedback.personalisation import EDITS, Refits, refit_languages
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.files import exported
from lsp_calib.inference.engine import Engine, LoadedModel
from lsp_calib.inference.models.cards import as_pulled, load_cards
from lsp_calib.inference.models.inventory import inventory
from lsp_calib.settings import Settings, tier_policy
from lsp_calib.summarization.prompt import AUGMENTED
from lsp_calib.summarization.prompt import VERSION as SUMMARY_VERSION
from lsp_calib.terminal import Console
from lsp_calib.values import ModelIdentity

_SHOWN = {"skill": "+.2f", "auc": ".3f", "ece": ".3f"}
"""The metrics of a table, with the format of their numbers."""


@attrs.frozen
class Listing:
    """All calibrators of this user and installation, and a sentence for each file that cannot be used.

    installed: names of the installed models.
    """

    entries: tuple[Listed, ...]
    skipped: tuple[str, ...]
    installed: frozenset[str] = frozenset()

    def to_wire(self) -> dict[str, Any]:
        return {"calibrators": [_wire(entry) for entry in self.entries], "skipped": list(self.skipped)}

    def print(self) -> None:
        console = Console()
        usable = [entry for entry in self.entries if entry.calibrator.purpose.model.name in self.installed]
        others = [entry for entry in self.entries if entry not in usable]
        for title, entries in (("installed models", usable), ("models that are not installed here", others)):
            if entries:
                console.print(f"Of {title}:", style="bold")
                self._print(entries, console)
        for sentence in self.skipped:
            console.print(sentence)
        if self.entries:
            console.print("`lsp-calib calibrators show ID` prints the weights of one of them.")

    @staticmethod
    def _print(entries: Sequence[Listed], console: Console) -> None:
        for entry in entries:
            c = entry.calibrator
            standing = "in force" if entry.in_force else "kept"
            # Ids are copied from here: each has a line that is never wrapped.
            console.print(Text(c.id, style="bold") + Text(f"  {standing}", style=""), soft_wrap=True)
            skill = _number(c.metrics.get("skill"), "+.2f") or "unknown"
            console.print(
                f"  {in_one_line(c.purpose.model.name, 80)}, {c.purpose.answers}, "
                f"prompt {in_one_line(c.purpose.prompt_version, 40)}; "
                f"{c.source_and_state}; {counted(c.n, 'label')}; {c.measure}, skill {skill}; {c.created}",
                soft_wrap=True,
            )
            if words := note(c):
                console.print(f"  {words}", soft_wrap=True)
            if words := _promised(entry):
                console.print(f"  {words}", soft_wrap=True)


@attrs.frozen
class Description:
    """Calibrators in detail."""

    entries: tuple[Listed, ...]

    def to_wire(self) -> list[dict[str, Any]]:
        return [
            {
                **_wire(entry),
                "calibrator": entry.calibrator.to_json(),
                "words": [curve_words(curve) for curve in entry.calibrator.curves],
            }
            for entry in self.entries
        ]

    def print(self) -> None:
        console = Console()
        for entry in self.entries:
            _print(entry, console)


def list_calibrators() -> Listing:
    """The calibrators in force and those that are kept."""
    entries, skipped = CalibratorStore.open().listed()
    installed = frozenset(one.card.name for one in inventory() if one.installed)
    return Listing(tuple(entries), tuple(skipped), installed)


def show_calibrators(wanted: str | None) -> Description:
    """The calibrator with this id (or the only one that begins so), or those of the model of this name; None:
    those in force. Raises SettingsError if there is none."""
    entries, _ = CalibratorStore.open().listed()
    in_force = [entry for entry in entries if entry.in_force]
    if wanted is None:
        return Description(tuple(in_force))
    exact = [entry for entry in entries if entry.calibrator.id == wanted]
    named = [entry for entry in in_force if entry.calibrator.purpose.model.name == wanted]
    begun = [entry for entry in entries if entry.calibrator.id.startswith(wanted)]
    found = exact[:1] or named or begun
    if not found or (found is begun and len({entry.calibrator.id for entry in begun}) > 1):
        known = ", ".join(dict.fromkeys(entry.calibrator.id for entry in begun or entries))
        problem = "Several calibrators begin with" if begun else "There is no calibrator"
        raise SettingsError(f"{problem} {wanted!r}. Known: {known}.")
    return Description(tuple(found))


def curve_words(curve: Curve) -> dict[str, Any]:
    """What a curve weighs, in words: its measure, and for each feature what it is and what it does.

    factor: by what the odds of being right are multiplied where the feature is one standard deviation higher.
    """
    return {
        "measure": curve.measure,
        "features": [
            {
                "name": feature.name,
                "words": feature_words(feature.name),
                "mean": feature.mean,
                "scale": feature.scale,
                "weight": feature.weight,
                "factor": math.exp(min(feature.weight, 100.0)),
                "effect": effect(feature.weight),
            }
            for feature in curve.features
        ],
        "places": {one.place: math.exp(min(one.offset, 100.0)) for one in curve.offsets},
    }


def feature_words(name: str) -> str:
    """The quantity of a feature, or of a measure that serves as one."""
    known = FEATURES.get(name) or SUMMARY_FEATURES.get(name)
    return known.words if known else f"log-odds of the measure {name}"


def effect(weight: float) -> str:
    """What a high value does.

    >>> effect(0.4), effect(-1.83), effect(0.0)
    ('raises the probability', 'lowers the probability', 'no effect')
    """
    if abs(weight) < 0.005:
        return "no effect"
    return "raises the probability" if weight > 0 else "lowers the probability"


def _wire(entry: Listed) -> dict[str, Any]:
    c = entry.calibrator
    skill = c.metrics.get("skill")
    return {
        "id": c.id,
        "path": str(entry.path),
        "inForce": entry.in_force,
        "model": c.purpose.model.name,
        "language": c.purpose.language,
        "task": c.purpose.task,
        "criterion": c.purpose.criterion or None,
        "source": c.source,
        "state": c.state,
        "n": c.n,
        "measure": c.measure,
        "skill": None if skill is None else skill.value,
        "created": c.created,
        "carriedFrom": carried_from(c),
        "certificate": _certificate(entry),
    }


def _certificate(entry: Listed) -> dict[str, Any] | None:
    """What is promised of the tiers of a calibrator in force; None where nothing is to be."""
    promise = entry.ledger.promise if entry.in_force else None
    return None if promise is None else entry.ledger.to_wire(entry.calibrator.id, promise)


def _promised(entry: Listed) -> str:
    """The same in words; empty where nothing is to be promised."""
    found = _certificate(entry)
    if found is None:
        return ""
    return (
        f"{'Certified' if found['certified'] else 'Nothing is certified to be accepted'}: {found['reason']}."
    )


def _print(entry: Listed, console: Console) -> None:
    c = entry.calibrator
    standing = "in force" if entry.in_force else "kept, not in force"
    answers = c.purpose.answers
    console.print(f"{c.id} ({c.source_and_state}; {standing})", style="bold")
    console.print(
        f"{answers[0].upper()}{answers[1:]} by {in_one_line(c.purpose.model.name, 80)}, "
        f"prompt {in_one_line(c.purpose.prompt_version, 40)}; "
        f"made {c.created} from {counted(c.n, 'label')}, {c.n_correct:,} right, of "
        f"{counted(len(c.provenance), 'source')}. {entry.path}",
        soft_wrap=True,
    )
    if words := _promised(entry):
        console.print(words, soft_wrap=True)
    for at, curve in enumerate(c.curves):
        when = "used first" if at == 0 else "used where those above lack evidence"
        if is_plain(curve.measure):
            slope = curve.features[0].weight
            console.print(
                f"{curve.measure} ({when}): log-odds = {slope:.2f} × those of the measure "
                f"{curve.intercept:+.2f}",
                soft_wrap=True,
            )
        else:
            console.print(_curve_table(curve, when))
    if c.metrics:
        console.print(_metrics_table(c))


def _curve_table(curve: Curve, when: str) -> Table:
    """The weights of a curve; the strongest first."""
    words = curve_words(curve)
    table = Table(
        "evidence",
        "average",
        "spread",
        "weight",
        "one spread more",
        title=f"{curve.measure} ({when}), intercept {curve.intercept:+.2f}",
    )
    for feature in sorted(words["features"], key=lambda row: -abs(row["weight"])):
        table.add_row(
            feature["words"],
            f"{feature['mean']:.2f}",
            f"{feature['scale']:.2f}",
            f"{feature['weight']:+.2f}",
            f"odds × {feature['factor']:.2f}, {feature['effect']}",
        )
    for place, factor in words["places"].items():
        table.add_row(
            f"the cursor's place: {place}", "", "", f"{math.log(factor):+.2f}", f"odds × {factor:.2f}"
        )
    return table


def _metrics_table(calibrator: Calibrator) -> Table:
    """The metrics over all places and at each kind of place."""
    rows: dict[str, Mapping[str, Interval]] = {"all places": calibrator.metrics, **calibrator.by_place}
    table = Table("", *_SHOWN, title=f"{calibrator.measure}, out of fold, with 95 % intervals")
    for place, metrics in rows.items():
        table.add_row(place, *(_number(metrics.get(name), form) for name, form in _SHOWN.items()))
    return table


def _number(interval: Interval | None, form: str) -> str:
    return "" if interval is None else format(interval, form)


# What a provenance may name besides projects: kinds of labels, and other calibrators by their ids.
_NO_PROJECT = re.compile(
    rf"{re.escape(FEEDBACK)}|{re.escape(OTHERS)}|{re.escape(COMMITS)}"
    r"|(?:imported )?(?:line|infill|function|summary|edit)-[a-z0-9.-]+-[0-9a-f]{8}"
)


def export_calibrator(wanted: str, path: Path) -> Calibrator:
    """Write a calibrator to a new file for others; returns what the file holds.

    The projects that it was fitted on are numbered: their names may be paths, or those of customers.

    Raises SettingsError if there is none of this id or the file exists, DataError if it
    cannot be written.
    """
    entries, _ = CalibratorStore.open().listed()
    calibrator = _without_names(find(entries, wanted).calibrator)
    text = json.dumps(calibrator.to_json(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    with exported(path, 0o666) as stream:
        stream.write(text)
    return calibrator


def _without_names(calibrator: Calibrator) -> Calibrator:
    if calibrator.source != "workspace":
        return calibrator
    numbers = count(1)
    named = [
        one if _NO_PROJECT.fullmatch(one.name) else attrs.evolve(one, name=f"project {next(numbers)}")
        for one in calibrator.provenance
    ]
    return calibrator.shared(provenance=tuple(named))


def import_and_try(path: Path, say: Say, *, install: bool) -> Imported:
    """Try a calibrator from elsewhere on the user's labels, and put it in force if they allow it.

    It must be for a model that this user works with. say: is told where it comes from, before it is tried.
    Raises LspCalibError.
    """
    with feedback_store() as store:
        foreign = read_foreign(path, list(_uses(store)))
        for sentence in provenance_words(foreign):
            say(sentence)
        return import_calibrator(foreign, store, CalibratorStore.open(), install=install)


def provenance_words(calibrator: Calibrator) -> Iterator[str]:
    """Where a calibrator comes from, a sentence each: its model, its labels, how good it was, its sources."""
    purpose = calibrator.purpose
    yield (
        f"{calibrator.id}: for {purpose.answers} by {in_one_line(purpose.model.name, 80)}, prompt "
        f"{purpose.prompt_version}; made {calibrator.created} ({calibrator.source}) from {calibrator.n} "
        f"labels, {calibrator.n_correct} right."
    )
    skill = calibrator.metrics.get("skill")
    if skill is not None and skill.value is not None:
        yield f"Its skill on the labels of its maker, out of fold: {skill.value:+.2f}."
    sources = [
        f"{in_one_line(one.name, 80)} ({one.items} items, {in_one_line(one.version, 40)})"
        for one in calibrator.provenance
    ]
    shown = [*sources[:5], *([f"{len(sources) - 5} more"] if len(sources) > 5 else [])]
    yield f"Sources: {'; '.join(shown) or 'none named'}."


def import_words(imported: Imported) -> str:
    """The result of an import, in words."""
    done = in_words(imported.calibrator)
    if imported.in_force:
        said = f"{done} is in force: {imported.reason}."
        # A shipped one is what is left when all others are taken back.
        own = imported.calibrator.source != "shipped"
        # One's own still names the one that it replaced when it was made.
        other = imported.replaced not in ("", imported.calibrator.parent)
        command = f"lsp-calib calibrators rollback{f' {imported.replaced}' if other else ''}"
        return f"{said} `{command}` takes it back." if own else said
    return (
        f"{done} is kept, not in force: {imported.reason}. "
        f"`lsp-calib calibrators rollback {imported.calibrator.id}` puts it in force nevertheless."
    )


def _uses(store: FeedbackStore) -> Iterator[Purpose]:
    """The models and prompts that this user works with, without languages: the installed ones, and those that
    suggestions came from."""
    models = []
    for card in map(as_pulled, load_cards().values()):
        if card.path.is_file():
            models.append(card.identity)
            for size in WindowSize:
                yield Purpose(card.identity, Layout.of(card, size).version, "line", "")
    for name, sha256, prompt, kind in store.read(
        "SELECT DISTINCT model, model_sha256, prompt_version, kind FROM suggestions WHERE kind <> 'edit'"
    ):
        models.append(ModelIdentity(name, "", sha256))
        if kind != "summary":
            yield Purpose(models[-1], prompt, "line", "")
    if (curve := shipped_curve()) is not None:
        yield attrs.evolve(curve.purpose, language="")
    # Every model is asked for summaries in the same way.
    for model in dict.fromkeys(models):
        for version in (SUMMARY_VERSION, AUGMENTED):
            yield Purpose(model, version, "summary", "")


def refit_now(given: Settings, say: Say) -> Refits:
    """Refit from the feedback store, as `lsp-calib.refit` does. given, say: as for `settings_in_force`."""
    trusted = settings_in_force(given, say)
    wish = wish_of(trusted)

    async def ask(engine: Engine) -> Refits:
        # Only the model's identity is asked for: labels of other models say nothing about it.
        loaded, calibrators = await engine.ready(), CalibratorStore.open()
        with feedback_store() as store:
            today = datetime.date.today().isoformat()
            layout = _layout_of_labels(store, loaded) or layouts_for(trusted, calibrators).of(loaded)
            refits = refit_languages(store, calibrators, loaded.identity, layout.version, today, promise=wish)
            if any(result.n for language, result in refits.results if language != EDITS):
                return refits
            return attrs.evolve(refits, elsewhere=_elsewhere(store, loaded.identity))

    return with_engine(ask, trusted, say)


def _elsewhere(store: FeedbackStore, identity: ModelIdentity) -> str:
    """A sentence on the model with most labels, and the command that learns from them; empty if there is none
    but this one."""
    found = store.read(
        "SELECT s.model, COUNT(*) FROM suggestions s JOIN labels l ON l.suggestion_id = s.id "
        "WHERE s.kind = 'line' AND l.correct IS NOT NULL AND s.model <> ? "
        "GROUP BY s.model ORDER BY COUNT(*) DESC, s.model LIMIT 1",
        identity.name,
    )
    if not found:
        return ""
    ((name, n),) = found
    command = f"lsp-calib refit --model {shlex.quote(name)}"
    return f"{n} labels are of {name}: `{command}` learns from them (--remote URL, if a server runs it)."


def _layout_of_labels(store: FeedbackStore, loaded: LoadedModel) -> Layout | None:
    """The layout of the prompts that this user's editor sends, by the last label: its settings name a window
    that a command does not know of. None if there is no label of a layout in use."""
    layouts = {layout.version: layout for layout in (Layout.of(loaded.card, size) for size in WindowSize)}
    version = store.latest_prompt(loaded.identity, "line", list(layouts))
    return None if version is None else layouts[version]


def wish_of(trusted: Settings) -> Wish:
    """What the user's own settings promise of the tiers; without a policy there, what the editor last did.

    The measure stays.
    """
    if trusted.policy is None:
        return "as before"
    policy = tier_policy(trusted)
    if not isinstance(policy, RiskPolicy):
        return None
    return Promise(risk=policy.risk, delta=policy.delta, measure=AS_BEFORE)
