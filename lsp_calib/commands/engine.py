"""The engine that a command uses, by the settings in force."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lsp_calib.calibration.calibrators.calibrator_store import CalibratorStore
from lsp_calib.calibration.calibrators.confidence_estimator import ConfidenceEstimator
from lsp_calib.completion.prompt import LayoutChooser, WindowSize
from lsp_calib.inference import open_engine
from lsp_calib.inference.engine import Engine, EngineState
from lsp_calib.settings import Settings, engine_choice, resolve, tier_policy

T = TypeVar("T")
Say = Callable[[str], None]
"""Tells the user of something that does not stop the command, such as a wrong setting."""


def settings_in_force(given: Settings | None = None, say: Say = lambda _: None) -> Settings:
    """The settings of the command line; the others come from the environment and the user's `config.toml`, as
    for the server. say: is called with each problem. Raises SettingsError if there is no state folder."""
    trusted, problems = resolve(given or Settings())
    for problem in problems:
        say(problem)
    return trusted


def estimator_for(trusted: Settings) -> ConfidenceEstimator:
    """Says how likely an answer is to be right, by the calibrators and the tiers in force for a command."""
    estimator = ConfidenceEstimator(CalibratorStore.open(), tier_policy(trusted))
    estimator.overrides = trusted.overrides
    return estimator


def layouts_for(trusted: Settings, store: CalibratorStore) -> LayoutChooser:
    """Chooses the window that the user's own settings ask for, or else the best for model and machine."""
    return LayoutChooser(store.has_labels, WindowSize.named(trusted.window))


def with_engine(ask: Callable[[Engine], Awaitable[T]], trusted: Settings, say: Say) -> T:
    """Run `ask` with an engine that is closed afterwards: the model process, or a remote server.

    trusted: the settings in force. say: reports that a model is being loaded.
    Raises LspCalibError if the engine cannot be opened, and what `ask` raises.
    """
    choice = engine_choice(trusted)
    told: set[str] = set()

    def on_state(state: EngineState, text: str, _fraction: float | None) -> None:
        if state is EngineState.LOADING and text not in told:
            told.add(text)
            with contextlib.suppress(OSError):  # nobody reads it
                say(text)

    async def run() -> T:
        engine = open_engine(choice, on_state)
        try:
            return await ask(engine)
        finally:
            await engine.close()

    return asyncio.run(run())
