"""`lsp-calib refit`: new calibrators from the feedback store."""

from __future__ import annotations

import datetime

import attrs

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.certificates import AS_BEFORE, Promise, Wish
from lsp_calib.calibration.tiers import RiskPolicy
from lsp_calib.commands.engine import Say, settings_in_force, wanted_window, with_engine
from lsp_calib.completion.prompt import Layout, LayoutChooser, WindowSize, line_purpose
from lsp_calib.feedback.learning import Refits, refit_languages
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.inference.engine import Engine, LoadedModel
from lsp_calib.inference.models.card import as_pulled, load_cards
from lsp_calib.settings import Trusted
from lsp_calib.settings.tiers import tier_policy
from lsp_calib.values import ModelIdentity


def refit_now(given: Trusted, say: Say) -> Refits:
    """Refit from the feedback store, as `lsp-calib.refit` does. given, say: as for `with_engine`."""

    trusted = settings_in_force(given, lambda _: None)
    wish = wish_of(trusted)

    async def ask(engine: Engine) -> Refits:
        # Only the model's identity is asked for: labels of other models say nothing about it.
        loaded, calibrators = await engine.ready(), CalibratorStore.open()
        store = FeedbackStore(home.state_dir() / "feedback.db")
        try:
            today = datetime.date.today().isoformat()
            layouts = LayoutChooser(calibrators.has_labels, lambda: wanted_window(trusted))
            layout = _layout_of_labels(store, loaded) or layouts.of(loaded)
            purpose = line_purpose(loaded.identity, layout.version, "python")
            refits = refit_languages(store, calibrators, purpose, today, promise=wish)
            if any(result.n for _, result in refits.results):
                return refits
            return attrs.evolve(refits, elsewhere=_elsewhere(store, loaded.identity))
        finally:
            store.close()

    return with_engine(ask, given, say)


def _elsewhere(store: FeedbackStore, identity: ModelIdentity) -> str:
    """A sentence on the model with most labels, and the command that learns from them; empty if there is none
    but this one."""
    found = [
        (name, sha256, n)
        for name, sha256, n in store.read(
            "SELECT s.model, s.model_sha256, COUNT(*) FROM suggestions s "
            "JOIN labels l ON l.suggestion_id = s.id WHERE s.kind = 'line' AND l.correct IS NOT NULL "
            "GROUP BY s.model_sha256, s.model ORDER BY COUNT(*) DESC, s.model"
        )
        if (sha256 or name) != (identity.sha256 or identity.name)
    ]
    if not found:
        return ""
    name, sha256, n = found[0]
    more = f", and others of {len(found) - 1} more" if len(found) > 1 else ""
    if not sha256:
        command = f"lsp-calib refit --remote ADDRESS --model {name}"
        return f"{n} labels are of {name}{more}: `{command}`, with its server's address, learns from them."
    card = load_cards().get(name)
    if card is not None and as_pulled(card).sha256 == sha256:
        return f"{n} labels are of {name}{more}: `lsp-calib refit --model {name}` learns from them."
    return f"{n} labels are of {name}{more}: `lsp-calib refit --model FILE`, with its file, learns from them."


def _layout_of_labels(store: FeedbackStore, loaded: LoadedModel) -> Layout | None:
    """The layout of the prompts that this user's editor sends, by the last label: its settings name a window
    that a command does not know of. None if there is no label of a layout in use."""
    layouts = {layout.version: layout for layout in (Layout.of(loaded.card, size) for size in WindowSize)}
    version = store.latest_prompt(loaded.identity, "line", list(layouts))
    return None if version is None else layouts[version]


def wish_of(trusted: Trusted) -> Wish:
    """What the user's own settings promise of the tiers; without a policy there, what the editor last did.

    An editor's settings alone name the measure: it stays.
    """
    if trusted.policy is None:
        return "as before"
    policy, _ = tier_policy(trusted)
    if not isinstance(policy, RiskPolicy):
        return None
    return Promise(risk=policy.risk, delta=policy.delta, measure=AS_BEFORE)
