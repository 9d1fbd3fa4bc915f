"""How much memory a model takes, and how much there is."""

from __future__ import annotations

import contextlib
from pathlib import Path

from lsp_calib.inference.models.cards import BITS, ModelCard

# Buffers for computing, the vocabulary's scores, the process itself.
_OVERHEAD = 300 << 20
# Background work has one sequence of its own. Interactive work has three: two editors with a document each,
# and one more for a prompt that begins elsewhere, which may be one that is evaluated ahead.
_SEQUENCES = 4
# Models whose cache is very large have fewer, to take no more than this together; two in any case.
_MOST_BYTES = 1 << 30


def needed(card: ModelCard) -> int:
    """Bytes that the model takes when loaded: weights, caches, buffers. An estimate, rather high than low."""
    weights = card.path.stat().st_size if card.path.is_file() else card.size
    weights = weights or int(card.parameters * BITS / 8)
    cache = card.context * card.kv_bytes
    return weights + cache * count_sequences(cache) + _OVERHEAD


def count_sequences(bytes_each: int) -> int:
    """The number of sequences, 2 to 4, of a model whose cache takes `bytes_each` for one document."""
    return max(2, min(_SEQUENCES, _MOST_BYTES // max(bytes_each, 1)))


def available() -> int | None:
    """Bytes that programs could still use, within a container's limit; None where that is unknown, as
    anywhere but on Linux."""
    with contextlib.suppress(OSError, ValueError, IndexError, StopIteration):
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
        free = int(next(line for line in lines if line.startswith("MemAvailable:")).split()[1]) << 10
        left = _container()
        return free if left is None else max(min(free, left), 0)
    return None


def fits(needs: int) -> bool | None:
    """Whether so many bytes are free beside the programs that run at present; None where that is unknown."""
    free = available()
    return None if free is None else needs <= free


def _container(folder: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that a control group leaves; None without a limit.

    Pages of files that are not in use are not counted: the system drops them when memory is wanted.
    """
    try:
        limit = (folder / "memory.max").read_text("ascii").strip()
        used = int((folder / "memory.current").read_text("ascii"))
        statistics = (folder / "memory.stat").read_text("ascii").splitlines()
        idle = sum(int(line.split()[1]) for line in statistics if line.startswith("inactive_file "))
        return None if limit == "max" else int(limit) - max(used - idle, 0)
    except (OSError, ValueError, IndexError):
        return None
