"""How likely a suggested line is to survive: to be kept as it is, or after an edit of at most half of it.

There is one small file for each model and version of the prompt, beside the calibrators. Its labels are of
lines in all languages together. What the probability of the whole line leaves is weighed here: so a line that
ends unchanged survives, and a user's refit moves both.
"""

from __future__ import annotations

from lsp_calib.calibration.calibrators.calibrator import FileDocument
from lsp_calib.calibration.calibrators.curve import Curve
from lsp_calib.calibration.document import Count, Text
from lsp_calib.errors import DataError
from lsp_calib.values import Evidence, ModelIdentity

FOLDER = "survival"
"""The folder with the curves: beside that of the shipped calibrators, and in that of the user's own, which go
first."""


class SurvivalCurve(FileDocument, frozen=True, kw_only=True, tag_field="schema", tag=1):
    """P(the line survives, if it does not end unchanged), by logistic regression.

    model: whose answers it was fitted on; its SHA-256 counts. curves: the preferred first; that of the first
    whose features are all known counts, as in a `Calibrator`. n, n_survived: the lines it was fitted on, none
    of which was right as it stood, and how many of them survived.
    Raises DataError for numbers that contradict each other.
    """

    model: ModelIdentity
    prompt_version: Text
    n: Count
    n_survived: Count
    curves: tuple[Curve, ...]

    def __post_init__(self) -> None:
        measures = [curve.measure for curve in self.curves]
        if not measures or len(set(measures)) < len(measures):
            raise DataError("curves must be at least one, one for each measure.")
        if not 0 <= self.n_survived <= self.n:
            raise DataError("nSurvived must be among n.")

    def probability(self, evidence: Evidence, unchanged: float) -> float | None:
        """That a line survives, in [unchanged, 1]; None if no curve has its features, or they are impossible.

        evidence: of the line. unchanged: the calibrated probability that it ends as it stands, in [0, 1].
        """
        try:
            of_changed = (curve.probability(evidence) for curve in self.curves)
            edited = next((p for p in of_changed if p is not None), None)
        except DataError:
            return None
        return None if edited is None else unchanged + (1.0 - unchanged) * edited
