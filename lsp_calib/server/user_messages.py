"""Messages to the user; faults are shown once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from lsprotocol import types

Show = Callable[[types.ShowMessageParams], None]


class UserMessages:
    """Shows each error and warning once, until `forget`; no message after `stop`."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._shown: set[str] = set()
        self._stopped = False

    def error(self, message: str) -> None:
        self._once([message], types.MessageType.Error)

    def warn(self, message: str) -> None:
        self._once([message], types.MessageType.Warning)

    def inform(self, message: str) -> None:
        """Show a message, also if it was shown before."""
        if not self._stopped:
            self._show(types.ShowMessageParams(types.MessageType.Info, message))

    def warn_together(self, messages: Iterable[str]) -> None:
        """Show those of the messages that are new, one a line."""
        self._once(messages, types.MessageType.Warning)

    def forget(self) -> None:
        """From now on the same errors and warnings are shown again."""
        self._shown.clear()

    def stop(self) -> None:
        self._stopped = True

    def _once(self, messages: Iterable[str], kind: types.MessageType) -> None:
        new = [message for message in dict.fromkeys(messages) if message not in self._shown]
        if new and not self._stopped:
            self._shown.update(new)
            self._show(types.ShowMessageParams(kind, "\n".join(new)))
