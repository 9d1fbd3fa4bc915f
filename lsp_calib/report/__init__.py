"""The report on the user's feedback: one page of HTML. The command line imports this module alone."""

from typing import Literal

ThemeName = Literal["auto", "light", "dark"]
THEMES: tuple[ThemeName, ...] = ("auto", "light", "dark")
"""The colours that a page may have."""
