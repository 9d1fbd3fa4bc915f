"""`lsp-calib refit`: new calibrators from the feedback store."""

from __future__ import annotations

import datetime

from lsp_calib import home
from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.policies.ledger import Promise, Wish
from lsp_calib.calibration.policies.tiers import RiskPolicy
from lsp_calib.commands.engine import Say, settings_in_force, with_engine
from lsp_calib.completion.layouts import Layouts
from lsp_calib.completion.prompt import Layout, WindowSize
from lsp_calib.completion.purpose import line_purpose
from lsp_calib.feedback.learning import Refits, refit_languages
from lsp_calib.feedback.store import FeedbackStore
from lsp_calib.inference.engine import Engine, LoadedModel
from lsp_calib.settings import Trusted
from lsp_calib.settings.tiers import tier_policy


def refit_now(given: Trusted, say: Say) -> Refits:
    """Refit from the feedback store, as `lsp-calib.refit` does. given, say: as for `with_engine`."""

    wish = wish_of(settings_in_force(given, lambda _: None))

    async def ask(engine: Engine) -> Refits:
        # Only the model's identity is asked for: labels of other models say nothing about it.
        loaded, calibrators = await engine.ready(), CalibratorStore.open()
        store = FeedbackStore(home.home() / "feedback.db")
        try:
            today = datetime.date.today().isoformat()
            layout = _layout_of_labels(store, loaded) or Layouts(calibrators.has_labels).of(loaded)
            purpose = line_purpose(loaded, layout, "python")
            return refit_languages(store, calibrators, purpose, today, promise=wish)
        finally:
            store.close()

    return with_engine(ask, given, say)


def _layout_of_labels(store: FeedbackStore, loaded: LoadedModel) -> Layout | None:
    """The layout of the prompts that this user's editor sends, by the last label: its settings name a window
    that a command does not know of. None if there is no label of a layout in use."""
    layouts = {layout.version: layout for layout in (Layout.of(loaded.card, size) for size in WindowSize)}
    version = store.latest_prompt(loaded.identity, "line", list(layouts))
    return None if version is None else layouts[version]


def wish_of(trusted: Trusted) -> Wish:
    """What the user's own settings promise of the tiers; without a policy there, what the editor last did."""
    if trusted.policy is None:
        return "as before"
    policy, _ = tier_policy(trusted)
    return Promise(risk=policy.risk, delta=policy.delta) if isinstance(policy, RiskPolicy) else None
