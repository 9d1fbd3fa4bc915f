"""Which cached sequence a prompt goes to: two documents must not drive each other out."""

from hypothesis import assume, given
from hypothesis import strategies as st

from lsp_calib.inference.generation.prefix import common_prefix
from lsp_calib.inference.prebuilt.sequences import CachedSequence, sequence_for

tokens = st.lists(st.integers(0, 2), max_size=12)


class Cache:
    """Three sequences, used as the server's are."""

    def __init__(self) -> None:
        self.sequences = [CachedSequence(id) for id in range(3)]
        self.uses = 0

    def ask(self, prompt: list[int]) -> int:
        """How many tokens of `prompt` were there already."""
        chosen = sequence_for(self.sequences, prompt)
        self.uses += 1
        chosen.used = self.uses
        reused = common_prefix(chosen.tokens, prompt)
        chosen.tokens = list(prompt)
        return reused


def document(number: int, size: int = 500) -> list[int]:
    """Tokens that no other document has, after a head that all have."""
    return [0] * 5 + [1000 * number + n for n in range(size)]


@given(tokens, tokens)
def test_the_common_prefix_is_that_of_the_definition(first: list[int], second: list[int]) -> None:
    same = common_prefix(first, second)
    assert first[:same] == second[:same]
    assert same == min(len(first), len(second)) or first[same] != second[same]


def test_a_new_line_near_the_top_of_a_file_keeps_what_stands_above() -> None:
    """A short text above, kept, and a longer one below, lost: of the same document that is no other place."""
    above, below = list(range(100)), list(range(1000, 1150))
    typed, other = [CachedSequence(0, used=1), CachedSequence(1, used=2)], CachedSequence(2, used=0)
    typed[0].tokens, typed[0].document = [*above, *below], "file:///a.py"
    typed[1].tokens, typed[1].document = [5] * 300, "file:///b.py"
    prompt = [*above, 7, *below]
    assert sequence_for([*typed, other], prompt, "file:///a.py") is typed[0]
    assert sequence_for([*typed, other], prompt, "file:///c.py") is other, (
        "another document with the same head"
    )
    assert sequence_for([*typed, other], prompt) is other
    elsewhere = [*above[:20], *range(5000, 5200)]
    assert sequence_for([*typed, other], elsewhere, "file:///a.py") is other, (
        "another place, to come back from"
    )


def test_a_third_prompt_takes_the_sequence_that_was_not_used_for_longest() -> None:
    cache = Cache()
    for number in (1, 2, 3, 4):
        cache.ask(document(number))
    assert cache.ask(document(3)) == 505
    assert cache.ask(document(2)) == 505
    assert cache.ask(document(4)) == 505
    assert cache.ask(document(1)) == 5, "the first had to go"


def test_short_prompts_do_not_cost_a_document_its_cache() -> None:
    """A prompt that is but the beginning of what is cached would throw the rest away."""
    cache = Cache()
    cache.ask(document(1))
    cache.ask(document(1)[:30])
    assert cache.ask(document(1)) == 505


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), min_size=1, max_size=60))
def test_up_to_three_documents_that_only_grow_are_each_evaluated_once(steps: list[tuple[int, int]]) -> None:
    cache = Cache()
    texts: dict[int, list[int]] = {}
    for number, more in steps:
        known = texts.get(number)
        texts[number] = text = [*(known or document(number)), *range(-more, 0)]
        reused = cache.ask(text)
        if known is not None:
            assert reused == len(known)


@given(st.lists(tokens, min_size=1, max_size=3), tokens)
def test_with_nothing_to_lose_the_longest_prefix_is_taken(cached: list[list[int]], prompt: list[int]) -> None:
    """All of these sequences are shorter than what is worth keeping."""
    assume(any(common_prefix(c, prompt) for c in cached))
    sequences = [CachedSequence(n, list(c), used=n) for n, c in enumerate(cached)]
    best = max(common_prefix(c, prompt) for c in cached)
    assert common_prefix(sequence_for(sequences, prompt).tokens, prompt) == best
