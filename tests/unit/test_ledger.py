"""What certificates cost, which one holds, and what a file remembers of them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lsp_calib.calibration.calibrators.calibrator_store import editing, read_ledger
from lsp_calib.calibration.certificates import LEAST_CONFIDENCE, Ledger, Promise, spent
from lsp_calib.errors import CalibratorError

PROMISE = Promise()
OPEN = Ledger().opened(PROMISE, key="k", used_until=0.0)
SURE = np.full(200, 0.99)


RIGHT, WRONG = np.ones(200, dtype=bool), np.zeros(200, dtype=bool)


def given_to(calibrator: str = "c", ledger: Ledger = OPEN, n: int = 60) -> Ledger:
    """A ledger after a certificate on n labels, none of them wrong."""
    return ledger.asking(calibrator, SURE[:n], RIGHT[:n])


@given(st.floats(1e-6, 0.5), st.integers(1, 2000))
def test_all_certificates_together_spend_delta_and_no_more(delta: float, most: int) -> None:
    parts = [spent(number, delta) for number in range(1, most + 1)]
    assert math.fsum(parts) < delta
    assert parts == sorted(parts, reverse=True)
    assert math.fsum(spent(number, 0.1) for number in range(1, 20_000)) == pytest.approx(0.1, rel=1e-3)


class TestAsking:
    def test_a_certificate_takes_the_labels_that_its_share_of_delta_takes(self) -> None:
        """The first spends 0.0608 of 0.1: 27 labels without an error instead of 22."""
        assert OPEN.needed == 27
        few = given_to(n=26)
        assert (few.asked, few.holds("c")) == (0, False), "nothing is spent where nothing can be given"
        assert few.certificate("c", PROMISE).reason == "not enough labels yet: 26 of 27"
        enough = given_to(n=27)
        assert (enough.asked, enough.holds("c")) == (1, True)
        found = enough.certificate("c", PROMISE)
        assert found.threshold == 0.99
        assert found.delta == pytest.approx(spent(1, 0.1))
        assert found.reason == (
            "at most 10 % of those at 99.0 % and above are wrong, with 90 % confidence: 0 of 27 labels were"
        )
        assert enough.needed == 40

    def test_the_threshold_with_the_best_outlook_is_tried(self) -> None:
        """A share of labels times their number is that number of them again, whatever rounding did to it."""
        for n in range(27, 400):
            confidence = np.concatenate((np.full(27, 0.99), np.full(n - 27, 0.6)))
            found = Ledger(promise=Promise(), key="k").asking("c", confidence, confidence > 0.9)
            assert found.holds("c"), (n, found.refusal)

    def test_nothing_is_asked_again_before_the_labels_have_grown(self) -> None:
        refused = OPEN.asking("c", SURE[:40], WRONG[:40])
        assert (refused.asked, refused.holds("c")) == (1, False)
        assert refused.certificate("c", PROMISE).reason == (
            "40 of the 40 most confident were wrong, where none may be (of 40 labels set aside)"
        )
        assert given_to(ledger=refused, n=59).asked == 1
        assert given_to(ledger=refused, n=60).asked == 2
        assert given_to("another", refused, n=59).asked == 2, "another calibrator is another question"

    def test_nothing_is_asked_where_the_confidences_themselves_give_it_no_chance(self) -> None:
        """They may decide: the labels are not looked at. An attempt would make the next one dearer."""
        hopeless = OPEN.asking("c", np.full(60, 0.9), RIGHT[:60])
        assert (hopeless.asked, hopeless.holds("c")) == (0, False)
        assert hopeless.certificate("c", PROMISE).reason == (
            "not enough labels yet: on 60 set aside a certificate has a chance of 6 %"
        )
        assert given_to(ledger=hopeless, n=60).holds("c")

    def test_what_is_less_likely_right_than_wrong_is_never_accepted(self) -> None:
        """However few of them were wrong, and although the average would bear it."""
        confidence = np.r_[np.full(60, 0.99), np.full(60, 0.49)]
        found = OPEN.asking("c", confidence, RIGHT[:120])
        assert found.certificate("c", PROMISE).threshold == 0.99
        assert found.aside == 60
        assert OPEN.asking("c", [LEAST_CONFIDENCE, LEAST_CONFIDENCE - 1e-9], [True, True]).aside == 1

    def test_one_that_holds_gives_way_to_a_lower_threshold_only(self) -> None:
        first = given_to(n=60)
        confidence = np.r_[np.full(60, 0.99), np.full(60, 0.97)]
        lower = first.asking("c", confidence, RIGHT[:120])
        assert lower.certificate("c", PROMISE).threshold == 0.97
        kept = first.asking("c", confidence, np.r_[RIGHT[:60], WRONG[:60]])
        assert (kept.asked, kept.certificate("c", PROMISE).threshold) == (2, 0.99)
        assert first.asking("c", confidence[:119], RIGHT[:119]) == replace(first, aside=119)


class TestWhatIsWanted:
    @pytest.mark.parametrize(
        ("wanted", "words"),
        [
            (Promise(risk=0.05), "promises less"),
            (Promise(delta=0.05), "promises less"),
            (Promise(measure="total"), "is for the measure best"),
        ],
    )
    def test_a_certificate_that_promises_less_or_something_else_does_not_hold(
        self, wanted: Promise, words: str
    ) -> None:
        found = given_to().certificate("c", wanted)
        assert found.threshold is None
        assert words in found.reason
        assert (found.risk, found.delta) == (wanted.risk, wanted.delta)

    def test_a_stricter_promise_may_be_asked_for_at_once(self) -> None:
        strict = given_to(n=100).opened(Promise(risk=0.05), key="k", used_until=0.0)
        after = strict.asking("c", SURE[:100], RIGHT[:100])
        assert after.asked == 2
        assert after.certificate("c", Promise(risk=0.05)).threshold == 0.99


class TestSettingAside:
    def test_only_what_no_fit_has_used(self) -> None:
        """After a fit on everything only later labels count."""
        ledger = Ledger().opened(PROMISE, key="k", used_until=100.0)
        assert (ledger.is_unused(100.5), ledger.is_unused(100.0)) == (True, False)
        assert not ledger.closed(300.0).is_unused(400.0)
        again = given_to().closed(500.0).opened(PROMISE, key="k", used_until=0.0)
        assert (again.is_unused(501.0), again.is_unused(500.0)) == (True, False)
        assert (again.asked, again.holds("c"), again.aside) == (1, False, 0)

    def test_another_key_divides_them_differently(self) -> None:
        read = replace(OPEN, read_until=900.0, aside=12)
        other = read.opened(PROMISE, key="other", used_until=0.0)
        assert not other.is_unused(900.0)
        assert (other.aside, other.key) == (0, "other")


class TestDrift:
    def test_a_revoked_certificate_is_replaced_on_later_labels_alone(self) -> None:
        ledger = given_to()
        wrong = ledger.read(10, SURE[:30], WRONG[:30], until=700.0)
        assert wrong.is_drifted("c")
        assert not wrong.holds("c")
        assert (wrong.used_until, wrong.aside) == (700.0, 0)
        reason = wrong.certificate("c", PROMISE).reason
        assert reason.startswith("revoked: ")
        assert reason.endswith("since then not enough labels yet: 0 of 40")
        counted = wrong.read(7, SURE[:9], RIGHT[:9], until=800.0)
        assert (counted.is_drifted("c"), counted.aside) == (True, 7), "good days do not bring it back"
        anew = given_to(ledger=counted, n=40)
        assert anew.holds("c")
        assert not anew.is_drifted("c")


ledgers = st.sampled_from(
    [
        Ledger(),
        OPEN,
        given_to(),
        given_to().read(3, SURE[:5], [True, False, True, True, True], until=12.5),
        given_to().read(3, SURE[:40], WRONG[:40], until=12.5),
        OPEN.asking("c", SURE[:40], WRONG[:40]),
    ]
)


class TestTheFile:
    @given(ledgers, st.floats(0, 1e10), st.integers(0, 10**9))
    def test_it_gives_back_what_was_written(
        self, tmp_path_factory: pytest.TempPathFactory, ledger: Ledger, moment: float, n: int
    ) -> None:
        path = tmp_path_factory.mktemp("ledger") / "one" / "line.json"
        ledger = replace(ledger, tried_until=moment, tried_n=n)
        with editing(path) as held:
            assert held.ledger == Ledger()
            held.ledger = ledger
        assert read_ledger(path) == ledger
        if ledger != Ledger():
            assert path.stat().st_mode & 0o077 == 0

    def test_an_error_inside_writes_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "line.json"

        def fail() -> None:
            with editing(path) as held:
                held.ledger = given_to()
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert read_ledger(path) == Ledger()

    @pytest.mark.parametrize(
        ("name", "value"),
        [("asked", -1), ("asked", "1"), ("schema", 2), ("watch", []), ("promise", {"risk": 0.1})],
    )
    def test_a_damaged_one_is_not_taken_for_an_empty_one(self, tmp_path: Path, name: str, value: Any) -> None:
        """It would forget how much was spent."""
        path = tmp_path / "line.json"
        with editing(path) as held:
            held.ledger = given_to()
        document = json.loads(path.read_text("utf-8"))
        path.write_text(json.dumps({**document, name: value}), "utf-8")
        with pytest.raises(CalibratorError, match="Delete this file to re-enable"):
            read_ledger(path)
        path.write_bytes(b"\xff{")
        with pytest.raises(CalibratorError, match="Delete this file to re-enable"), editing(path):
            pass
