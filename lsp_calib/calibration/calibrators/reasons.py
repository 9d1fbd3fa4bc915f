"""Why a suggestion got its tier, in a person's words: the feature that pulled most towards it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from lsp_calib.calibration.calibrators.curve import Curve, is_plain
from lsp_calib.confidence.features import FEATURES, Feature
from lsp_calib.values import Evidence, Tier

# A smaller pull than this, in nats, explains nothing: it moves a probability of 0.5 by less than 0.08.
LEAST_PULL = 0.3

# In nats. Where nothing pulls towards review or reject, a token that is less likely than not is the reason
# not to accept.
UNSURE = math.log(2.0)

# What a high value of each feature with words says of a suggestion: 1 speaks for it, -1 against it. A weight
# may have the other sign, because features overlap; its words would then contradict the tier.
SPEAKS = MappingProxyType(
    {
        "total": 1,
        "largest-surprisal": -1,
        "entropy-sum": -1,
        "end-surprisal": -1,
        "broken": -1,
        "line-repeats": 1,
        "new-names": -1,
        "line-follows": -1,
        "beginning-agrees": 1,
        "beginning-differs": -1,
    }
)


def reason(curve: Curve, evidence: Evidence, tier: Tier) -> str:
    """The words for the group of features that pulls most towards the tier, else for a token that is less
    likely than not; "" if there is neither.

    The features of the tokens' probabilities are one group, because they overlap; each other feature is a
    group of its own. Towards accept pulls what raises the log-odds above those of an average answer, towards
    review and reject what lowers them.
    Raises DataError as `Curve.contributions` does.
    """
    contributions = curve.contributions(evidence)
    if contributions is None:
        return ""
    sign = 1.0 if tier is Tier.ACCEPT else -1.0
    groups: dict[str, dict[str, float]] = {}
    for name, nats in contributions.items():
        groups.setdefault(_group(name), {})[name] = sign * nats
    weights = {feature.name: feature.weight for feature in curve.features}
    for group in sorted(groups.values(), key=lambda members: -sum(members.values())):
        if sum(group.values()) < LEAST_PULL:
            break
        if words := _words(group, weights, towards=sign):
            return _naming(words, evidence)
    if tier is not Tier.ACCEPT and -min(evidence.logprobs, default=0.0) >= UNSURE:
        last = len(evidence.logprobs) - 1
        at_the_end = evidence.logprobs.index(min(evidence.logprobs)) == last
        return _naming(FEATURES["end-surprisal"].high if at_the_end else FEATURES["total"].low, evidence)
    return ""


def _naming(words: str, evidence: Evidence) -> str:
    return words.replace("{word}", f"`{evidence.doubtful}`" if evidence.doubtful else "one of its words")


def _group(name: str) -> str:
    feature = FEATURES.get(name)
    of_tokens = is_plain(name) if feature is None else feature.needs != "text"
    return "log-probabilities" if of_tokens else name


def _words(pulls: Mapping[str, float], weights: Mapping[str, float], *, towards: float) -> str:
    """The words of the member that pulls most, of those whose words point the way that they pull."""
    for name in sorted(pulls, key=lambda name: -pulls[name]):
        feature = FEATURES.get(name)
        if feature is None or pulls[name] <= 0.0 or weights[name] * SPEAKS.get(name, 0) <= 0.0:
            continue
        if words := _side(feature, high=towards * weights[name] > 0.0):
            return words
    return ""


def _side(feature: Feature, *, high: bool) -> str:
    """The words for a value above or below the average."""
    return feature.high if high else feature.low
