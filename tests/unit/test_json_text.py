"""Values of JSON types become objects of declared types, from any number of threads."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, threading
import msgspec
from lsp_calib.json_text import converted

sys.setswitchinterval(1e-6)
for _ in range(100):
    part = msgspec.defstruct("Part", [(f"field{n}", list[int]) for n in range(20)])
    whole = msgspec.defstruct("Whole", [("part0", part)])
    value = {"part0": {f"field{n}": [n] for n in range(20)}}
    start = threading.Barrier(8)

    def convert():
        start.wait()
        assert converted(value, whole).part0.field19 == [19]

    threads = [threading.Thread(target=convert) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def test_threads_that_convert_to_a_type_for_the_first_time_do_not_crash() -> None:
    """A report and the start of a model read calibrators at the same time; msgspec alone crashes then."""
    subprocess.run([sys.executable, "-X", "faulthandler", "-c", PROGRAM], check=True, timeout=120)
