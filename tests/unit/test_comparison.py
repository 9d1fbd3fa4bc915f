"""Before and after a calibration."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest
from rich.console import Console

from lsp_calib.calibration.scores import auc, expected_calibration_error, skill_score
from lsp_calib.calibration.tiers import PRESETS
from lsp_calib.commands.calibration_trial import Comparison


def drawn(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and outcomes that they promise."""
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.8, n)
    return p, rng.random(n) < p


class TestComparison:
    def comparison(self, *, fresh: bool = True, source: str = "shipped") -> Comparison:
        p, y = drawn()
        before, after = ("old", source, np.sqrt(p)), ("new", "workspace", p)
        return Comparison.of(before, after, y, [str(i // 20) for i in range(600)], fresh=fresh)

    def test_its_figures_are_those_of_the_metrics(self) -> None:
        p, y = drawn()
        wire = json.loads(json.dumps(self.comparison().to_wire(), allow_nan=False))
        for side, confidence in (("before", np.sqrt(p)), ("after", p)):
            assert wire[side]["skill"]["value"] == skill_score(confidence, y)
            assert wire[side]["auc"]["value"] == auc(confidence, y)
            assert wire[side]["ece"]["value"] == expected_calibration_error(confidence, y)
        accepted = p >= PRESETS["balanced"].accept_from
        expected = {"n": accepted.sum(), "share": accepted.mean(), "right": y[accepted].mean()}
        assert wire["after"]["tiers"]["accept"] == expected
        assert sum(tier["n"] for tier in wire["after"]["tiers"].values()) == 600
        difference = wire["after"]["skill"]["value"] - wire["before"]["skill"]["value"]
        assert wire["gain"]["value"] == pytest.approx(difference)
        assert wire["gain"]["low"] > 0

    def test_one_without_labels_accepts_nothing(self) -> None:
        tier = self.comparison(source="prior").before.tiers["accept"]
        assert tier == {"n": 0, "share": 0.0, "right": None}

    @pytest.mark.parametrize("fresh", [True, False])
    def test_it_is_printed_within_80_columns_and_says_what_flatters(self, fresh: bool) -> None:
        console = Console(file=io.StringIO(), width=80, highlight=False)
        self.comparison(fresh=fresh).print(console)
        text = console.file.getvalue()  # type: ignore[attr-defined]
        assert max(map(len, text.split("\n"))) <= 80
        assert "accept: share @ right" in text
        assert ("flatters" in text) == (not fresh)
