"""Types the keystrokes again and sends the same requests to the peer."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from lsp_calib.settings import Trusted
from lsp_calib.tools.bench.peer import Peer, PeerReading
from lsp_calib.tools.bench.probe import Probe, connect, settled, until_idle
from lsp_calib.tools.bench.server import Scratch, scratch_folder, serving
from lsp_calib.tools.bench.trace import Edit
from lsp_calib.tools.bench.typist import Reading, Typist
from lsp_calib.tools.client import Editor

Known = Mapping[tuple[str, int], Reading]


async def against(
    peer: Peer,
    readings: Sequence[Reading],
    edits: Sequence[Edit],
    trusted: Trusted,
    seed: int,
    keep: Callable[[PeerReading], None],
    step: Callable[[int, int], None],
) -> None:
    """Type in a fresh server, and ask the peer the same questions as that server asks its model.

    Greedy answers repeat, so the first pass (`readings`) tells how many tokens the peer has to generate.
    Chance decides which of the two is asked first. step: called with (keystrokes done, keystrokes in all).
    """
    chance = random.Random(seed)
    known = {(reading.edit, reading.at): reading for reading in readings}
    done, total = 0, sum(len(edit.steps) for edit in edits)
    with scratch_folder(trusted) as scratch:
        async with serving(scratch) as (editor, _), connect(scratch) as probe:
            for edit in edits:
                typed = _Pass(peer, editor, scratch, probe, edit, known, chance)
                for at in range(len(edit.steps)):
                    if (found := await typed.key(at)) is not None:
                        keep(found)
                    done += 1
                    step(done, total)
                typed.close()


class _Pass:
    """One edit, typed again."""

    def __init__(
        self,
        peer: Peer,
        editor: Editor,
        scratch: Scratch,
        probe: Probe,
        edit: Edit,
        known: Known,
        chance: random.Random,
    ) -> None:
        self._peer, self._probe, self._known, self._chance = peer, probe, known, chance
        self._typist = Typist(editor, scratch, edit)

    async def key(self, at: int) -> PeerReading | None:
        """The reading of a keystroke; None if the model was not asked."""
        edit, peer = self._typist.edit, self._peer
        expected = self._known[edit.name, at]
        predicted = expected.generated if expected.asked_model else None
        before = await until_idle(self._probe)
        first = self._chance.random() < 0.5
        answer = await peer.finish_line(expected.prompt, predicted) if predicted and first else None
        wall, _ = await self._typist.answer(edit.steps[at])
        after = await settled(self._probe)
        if predicted and not first:
            answer = await peer.finish_line(expected.prompt, predicted)
        if answer is None or not predicted:
            return None
        return PeerReading(
            place=expected.place,
            wall_ms=wall,
            evaluated=after.prompt_tokens - before.prompt_tokens,
            generated=after.generated_tokens - before.generated_tokens,
            predicted=predicted,
            prompt_tokens=len(expected.prompt),
            peer=answer,
        )

    def close(self) -> None:
        self._typist.close()
