"""Pages with parts that programs write: each stands between two comments that name it."""

from __future__ import annotations

import re
from collections.abc import Mapping


def written(page: str, parts: Mapping[str, str], by: str = "") -> str:
    """The page with these parts as they are to be. by: the command that writes them, if comments say so."""
    for name, part in parts.items():
        begin, end = f"<!-- begin: {name}{by and f' ({by})'} -->\n", f"<!-- end: {name} -->"
        between = re.compile(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", re.DOTALL)
        text = f"\n{part}\n\n" if by else f"{part}\n"
        page, count = between.subn(text.replace("\\", r"\\"), page)
        assert count == 1, f"{begin}...{end} stands {count} times in the page"
    return page
