"""Folds of items that are held out together, so that no group is split between fitting and testing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lsp_calib.calibration.arrays import IntArray, group_codes
from lsp_calib.errors import DataError


def grouped_folds(groups: npt.ArrayLike, folds: int = 5, *, seed: int = 0) -> IntArray:
    """The fold, 0 .. k-1, of each item; a group's items share one. Shape (n,).

    groups: array of shape (n,) of strings or integers, one group each.
    folds: how many; fewer groups make fewer folds.
    seed: the same seed and groups give the same folds, in whatever order the items come.
    Balanced: each group goes to the fold with the fewest items, the largest groups first; groups of equal
    size in random order.
    Raises DataError if there are fewer than 2 groups or folds < 2.
    """
    codes = group_codes(groups, np.asarray(groups).size)
    sizes = np.bincount(codes)
    if sizes.size < 2:
        raise DataError("Cross-validation by group needs items of at least 2 groups.")
    if folds < 2:
        raise DataError(f"Cross-validation needs at least 2 folds, not {folds}.")
    shuffled = np.random.default_rng(seed).permutation(sizes.size)
    order = shuffled[np.argsort(-sizes[shuffled], kind="stable")]
    filled = np.zeros(min(folds, sizes.size), dtype=np.intp)
    fold_of_group = np.empty(sizes.size, dtype=np.intp)
    for group in order:
        fold = int(np.argmin(filled))
        fold_of_group[group] = fold
        filled[fold] += sizes[group]
    return fold_of_group[codes]
