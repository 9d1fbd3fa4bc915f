"""The report as JSON types."""

from __future__ import annotations

from typing import Any

from lsp_calib.calibration.calibrators.calibrator_store import Listed
from lsp_calib.feedback.comparison import Comparison, Judged
from lsp_calib.feedback.outcomes import Outcome, Share
from lsp_calib.feedback.report import Hidden, Report
from lsp_calib.feedback.statistics import moment


def to_wire(report: Report) -> dict[str, Any]:
    """The report as JSON types; times as ISO dates with time zone, None for what is not known."""
    return {
        "madeAt": moment(report.made_at),
        "statistics": report.statistics.to_wire(),
        "overall": _outcome(report.overall) if report.overall else None,
        "tiers": [_outcome(one) for one in report.tiers],
        "languages": [_outcome(one) for one in report.languages],
        "sources": [_outcome(one) for one in report.sources],
        "periods": [
            {"start": moment(one.start), "end": moment(one.end), **_outcome(one.outcome)}
            for one in report.periods
        ],
        "survival": [
            {"seconds": one.seconds, "tier": one.tier or None, **_share_wire(one.share)}
            for one in report.survival
        ],
        "comparison": _comparison_wire(report.comparison) if report.comparison else None,
        "hidden": _hidden_wire(report.hidden),
        "calibrators": [_calibrator_wire(one) for one in report.calibrators],
        "latencyMs": {"p50": report.latency.p50, "p95": report.latency.p95} if report.latency else None,
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "labels": outcome.labels,
        **_share_wire(outcome.share),
        "promised": outcome.promised,
        "brier": outcome.brier,
        "skill": outcome.skill,
        "skillLow": outcome.skill_low,
        "skillHigh": outcome.skill_high,
        "verdict": outcome.verdict,
    }


def _share_wire(share: Share) -> dict[str, Any]:
    return {"n": share.n, "right": share.value, "low": share.low, "high": share.high}


def _judged_wire(judged: Judged) -> dict[str, Any]:
    return {
        "brier": judged.brier,
        "logLoss": judged.log_loss,
        "skill": judged.skill,
        "ece": judged.ece,
        "meanConfidence": judged.mean,
        "bins": [one.to_json() for one in judged.bins],
    }


def _comparison_wire(found: Comparison) -> dict[str, Any]:
    return {
        "n": found.n,
        "labels": found.labels,
        "unseen": found.unseen,
        "changed": found.changed,
        "before": _judged_wire(found.before),
        "after": _judged_wire(found.after),
        "gain": found.gain,
        "gainLow": found.gain_low,
        "gainHigh": found.gain_high,
        "parts": [
            {
                "model": one.model,
                "language": one.language,
                "n": one.n,
                "before": {"calibrator": one.before_id, "brier": one.before_brier, "skill": one.before_skill},
                "after": {"calibrator": one.after_id, "brier": one.after_brier, "skill": one.after_skill},
            }
            for one in found.parts
        ],
    }


def _hidden_wire(hidden: Hidden) -> dict[str, Any]:
    return {
        "explored": hidden.explored,
        "exploredKnown": hidden.explored_known,
        "exploredRight": hidden.explored_right,
        "standsFor": hidden.stands_for,
        "limits": [
            {
                "below": one.below,
                "right": one.right,
                "wrong": one.wrong,
                "rightHidden": one.right_hidden,
                "wrongHidden": one.wrong_hidden,
            }
            for one in hidden.limits
        ],
        "withheld": dict(hidden.withheld),
        "cut": dict(hidden.cut),
    }


def _calibrator_wire(listed: Listed) -> dict[str, Any]:
    c = listed.calibrator
    skill = c.metrics.get("skill")
    return {
        "id": c.id,
        "inForce": listed.in_force,
        "model": c.purpose.model.name,
        "language": c.purpose.language,
        "source": c.source,
        "state": c.state,
        "n": c.n,
        "skill": None if skill is None else skill.value,
        "created": c.created,
    }
