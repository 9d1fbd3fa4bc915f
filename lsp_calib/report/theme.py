"""The colours that a page may have. Imported by the command line: it needs nothing else."""

from typing import Literal

ThemeName = Literal["auto", "light", "dark"]
THEMES: tuple[ThemeName, ...] = ("auto", "light", "dark")
