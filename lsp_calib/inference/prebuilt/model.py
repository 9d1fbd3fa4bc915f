"""llama.cpp's own server, ready-made (xllamacpp), as a `Backend`: for machines without a compiler.

Only the model process imports this. The server can generate several tokens by itself, but a question for each
costs about a millisecond and leaves all decisions here: which tokens agree with the typed text, when the
answer has ended, whether a client waits. It cannot be stopped inside an evaluation, so a prompt is handed
over in pieces, each of them soon done.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import attrs
import xllamacpp

from lsp_calib.errors import EngineError, ModelError
from lsp_calib.inference.backend import (
    Counters,
    Hardware,
    Interrupted,
    LoadOptions,
    Run,
    load_anyhow,
)
from lsp_calib.inference.engine import Priority, Request
from lsp_calib.inference.generation.prefix import common_prefix
from lsp_calib.inference.generation.run import Evaluator, GenerationRun, prompt_tokens, room_for_prompt
from lsp_calib.inference.generation.vocabulary import Vocabulary
from lsp_calib.inference.prebuilt.sequences import CachedSequence, sequence_for
from lsp_calib.inference.prebuilt.server import BATCH, Question, Reply, Server, has_gpu
from lsp_calib.installation import how_to_install
from lsp_calib.values import Prompt, Token

# Interactive prompts share the first of these sequences, background work has the last.
INTERACTIVE_SEQUENCES = 2
SEQUENCES = INTERACTIVE_SEQUENCES + 1
# Pieces that are to take this long; fewer tokens than these are no faster (a small matrix is not worth its
# unpacking).
_PIECE_MS = 60.0
_LEAST_PIECE = 16
_STEADY_PIECE = 64
# Numbers of most likely tokens: enough to include the typed text, and two, to check the probabilities.
_TYPED_TOP = 256
_TOP = 2
# So many tokens may be named in a question; naming more takes longer than asking twice.
_FEW = 256
# The share of a sum of probabilities that unlisted tokens may add at most. Half of that is assumed, so the
# sum is right to 1 %; different builds of llama.cpp differ by more.
_NEGLIGIBLE = 0.02
# Probabilities of float32 that should add up to 1 at most.
_ROUNDING = 1e-3
# Stands for a log-probability that was not a number: it must not pass for a likely one.
_UNKNOWN = -100.0


class PieceSize:
    """How many tokens of a prompt to hand over at once, learnt from how long the last pieces took."""

    def __init__(self) -> None:
        self._each_ms = _PIECE_MS / (2 * _LEAST_PIECE)

    @property
    def tokens(self) -> int:
        """A multiple of 16 between 16 and the batch size."""
        wanted = int(_PIECE_MS / self._each_ms) // _LEAST_PIECE * _LEAST_PIECE
        return min(max(wanted, _LEAST_PIECE), BATCH)

    def told(self, tokens: int, milliseconds: float) -> None:
        """So many tokens took so long. Single tokens say nothing about pieces."""
        if tokens >= _LEAST_PIECE and milliseconds > 0:
            self._each_ms += 0.3 * (milliseconds / tokens - self._each_ms)


class PrebuiltEvaluator(Evaluator):
    """The server, its vocabulary, its cached sequences as far as known."""

    def __init__(self, server: Server, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary, server.positions - 1, Counters())
        self.server = server
        self.interrupted = False
        self.piece = PieceSize()
        self._uses = 0
        self._interactive = [CachedSequence(index) for index in range(INTERACTIVE_SEQUENCES)]
        self._background = CachedSequence(INTERACTIVE_SEQUENCES)

    def sequence(self, priority: Priority, tokens: Sequence[int], document: str) -> CachedSequence:
        """The sequence in which these tokens, of a prompt about `document`, are evaluated."""
        if priority is Priority.INTERACTIVE:
            chosen = sequence_for(self._interactive, tokens, document)
        else:
            chosen = self._background
        chosen.document = document
        self._uses += 1
        chosen.used = self._uses
        return chosen

    def ask(
        self, sequence: CachedSequence, tokens: Sequence[int], question: Question, *, reuse: bool
    ) -> Reply:
        """`Server.ask`, with its cost counted. Raises Interrupted before anything is evaluated."""
        if self.interrupted:
            raise Interrupted
        sequence.tokens = []  # if it fails, the content is unknown
        reply = self.server.ask(tokens, sequence.id, question, reuse=reuse)
        sequence.tokens = list(tokens)
        self.counters.decode_ms += reply.decode_ms
        self.piece.told(reply.evaluated, reply.decode_ms)
        return reply


class PrebuiltGenerationRun(GenerationRun):
    """One generation after the tokens of its prompt, one question to the server for each token."""

    def __init__(self, evaluator: PrebuiltEvaluator, request: Request, prompt: list[int]) -> None:
        super().__init__(evaluator, request, prompt)
        self._evaluator = evaluator
        self._temperature = request.sampling.temperature if request.sampling else 0.0
        self._evaluated = 0  # of the tokens, where nothing may be reused

    def _generate(self) -> None:
        while not self._over:
            sequence = self._evaluator.sequence(self._request.priority, self._tokens, self._request.document)
            self._evaluate(sequence)
            self._choose(sequence)

    def _evaluate(self, sequence: CachedSequence) -> None:
        """Evaluate all tokens but the last piece, which is evaluated when a token is chosen after it."""
        steady = not self._request.reuse
        while True:
            known = common_prefix(sequence.tokens, self._tokens)
            if steady and known < self._evaluated:
                self._evaluated = 0  # another request took the sequence meanwhile
            if steady and not self._evaluated:
                known = 0
            size = _STEADY_PIECE if steady else self._evaluator.piece.tokens
            if len(self._tokens) - known <= size:
                return
            self._ask(sequence, self._tokens[: known + size], Question())

    def _ask(self, sequence: CachedSequence, tokens: Sequence[int], question: Question) -> Reply:
        afresh = not self._request.reuse and not self._evaluated
        reply = self._evaluator.ask(sequence, tokens, question, reuse=not afresh)
        if self._reused is None:
            self._reused = reply.reused
        if len(tokens) > self._evaluated:  # otherwise the same question was repeated
            # A token after the first costs the evaluation of the one before it: no part of the prompt.
            self._evaluator.counters.prompt_tokens += reply.evaluated - (1 if self._chosen else 0)
        self._evaluated = len(tokens)
        return reply

    def _choose(self, sequence: CachedSequence) -> None:
        """Choose the next token."""
        builder, pieces = self._builder, self._pieces
        allowed: tuple[int, ...] = ()
        if builder.remaining:
            allowed = tuple(self._evaluator.vocabulary.allowed(builder.remaining).tolist())
            single = len(allowed) == 1 and self._fork is None
            if single and len(pieces[allowed[0]]) <= len(builder.remaining):
                # Do not ask: there is no choice, and the token is not part of the answer.
                self._add(Token(allowed[0], 0.0, 0.0, ""))
                return
        question = Question(
            top=_TYPED_TOP if allowed else _TOP,
            allowed=allowed,
            temperature=self._temperature,
            seed=self._seed(),
        )
        reply = self._answered(sequence, question)
        typed_logprob = 0.0
        if allowed and len(pieces[reply.token]) > len(builder.remaining):
            typed_logprob = self._typed(sequence, allowed, reply)
        if not self._chosen:
            self._clock()  # the time until now was the prompt's
        self._doubt = self._doubt or doubt(reply.logprob, reply.top)
        logprob = _UNKNOWN if math.isnan(reply.logprob) else min(reply.logprob, 0.0)
        token = Token(reply.token, logprob, typed_logprob, "")
        if not allowed or self._temperature or not reply.top:
            self._take(token, ended=reply.ended)
            return
        before = len(self._tokens)
        self._reproduce(token, Token(reply.top[0][0], 0.0, 0.0, ""), ended=reply.ended)
        if len(self._tokens) <= before:  # some tokens were taken back
            self._evaluated = len(self._tokens) - 1

    def _answered(self, sequence: CachedSequence, question: Question) -> Reply:
        """The server's reply, which has a token in any case."""
        if len(question.allowed) > _FEW and not question.temperature:
            # As a rule the best of many is among the most likely of all.
            reply = self._ask(sequence, self._tokens, attrs.evolve(question, allowed=()))
            members = set(question.allowed)
            best = next((entry for entry in reply.top if entry[0] in members), None)
            if best is not None:
                return attrs.evolve(reply, token=best[0], logprob=best[1], ended=False)
        reply = self._ask(sequence, self._tokens, question)
        return reply if reply.token >= 0 else self._chosen_here(sequence, question, reply)

    def _chosen_here(self, sequence: CachedSequence, question: Question, reply: Reply) -> Reply:
        """With a choice made here: the server does not report its own if that token ends inside a character.

        It is told to choose a line's end instead, which does not change the probabilities that it reports.
        """
        drawn = question.temperature > 0
        everything = drawn or question.allowed
        newline = self._evaluator.server.tokenize(b"\n")[:1]
        listing = Question(top=self._evaluator.server.size if everything else _TOP, allowed=newline)
        listed = self._ask(sequence, self._tokens, listing).top
        if not listed:
            raise EngineError(
                "xllamacpp reported no probabilities. Try another version of it, or the engine `local`."
            )
        members = set(question.allowed)
        among = [entry for entry in listed if entry[0] in members] if members else list(listed)
        if drawn:
            weights = [math.exp((logprob - among[0][1]) / question.temperature) for _, logprob in among]
            token, logprob = random.Random(question.seed).choices(among, weights)[0]
        else:
            token, logprob = among[0]
        return attrs.evolve(reply, token=token, logprob=logprob, top=listed)

    def _typed(self, sequence: CachedSequence, allowed: tuple[int, ...], reply: Reply) -> float:
        """Log-probability of all allowed tokens together; the chosen one is among them."""
        known = {**dict(reply.top), reply.token: reply.logprob}
        total = log_probability(allowed, known, reply.top[-1][1] if reply.top else 0.0)
        if total is not None:
            return total
        # The exact way: how likely the best of them is by itself, and among them.
        best = reply
        if self._temperature > 0:
            best = self._answered(sequence, Question(top=_TOP, allowed=allowed))
        among = self._ask(
            sequence,
            self._tokens,
            Question(top=_TOP, allowed=allowed, temperature=1.0, conditional=True),
        )
        shares = dict(among.top)
        return min(best.logprob - shares.get(best.token, max(shares.values(), default=0.0)), 0.0)

    def _seed(self) -> int:
        """A seed for each token, the same for the same request."""
        sampling = self._request.sampling
        return random.Random(f"{sampling.seed} {self._generated}").getrandbits(31) if sampling else 0


def log_probability(allowed: Sequence[int], known: dict[int, float], least: float) -> float | None:
    """Logarithm of the allowed tokens' part of the probability, to 0.01; None if too little of it is known.

    known: log-probabilities by token, of the most likely ones at least. least: that of the least likely of
    these; every other token has less.
    """
    members = set(allowed)
    found = [logprob for token, logprob in known.items() if token in members]
    total = math.fsum(map(math.exp, found))
    unlisted = len(members) - len(found)
    rest = 1.0 - math.fsum(map(math.exp, known.values()))
    most = min(unlisted * math.exp(least), max(rest, 0.0)) if unlisted else 0.0
    if not total or most > _NEGLIGIBLE * total:
        return None
    return min(math.log(total + most / 2), 0.0)


def doubt(logprob: float, top: Sequence[tuple[int, float]]) -> str:
    """Why these log-probabilities cannot be true, in words for the user; empty where they can."""
    values = [logprob, *(value for _, value in top)]
    if any(math.isnan(value) or value > _ROUNDING for value in values):
        fault = "they are not probabilities"
    elif not top:
        fault = "there are none"
    elif math.fsum(math.exp(value) for _, value in top) > 1.0 + _ROUNDING:
        fault = "they add up to more than 1"
    else:
        return ""
    return (
        f"The probabilities that llama.cpp's server reported are invalid: {fault}. No confidence is shown "
        "for such an answer. Another version of xllamacpp, or the engine `local`, may do better."
    )


# The server does not say how far loading has come. Reading the vocabulary is the last tenth of it.
_LOADED = 0.9


class PrebuiltModel:
    """A loaded model. Raises ModelFileError if it cannot be loaded.

    Raises ModelError if this version of xllamacpp does not work as expected.

    An interruption is noticed between two pieces of a prompt (see `PieceSize`) and between two tokens: the
    server cannot be stopped inside an evaluation. The number of threads stays as it was at the start.
    """

    evaluates_ahead = False

    def __init__(self, options: LoadOptions) -> None:
        self.name = f"xllamacpp {xllamacpp.__version__}"
        self.notes: list[str] = []
        options.on_progress(0.0)
        try:
            self._server = self._load(options)
            options.on_progress(_LOADED)
            self._bos, self._begins_with_bos = self._server.bos()
            self._evaluator = PrebuiltEvaluator(
                self._server, Vocabulary(self._server.pieces(), self._server.tokenize)
            )
        except EngineError as error:
            raise ModelError(str(error)) from error
        self.counters = self._evaluator.counters
        self.threads, self.positions = self._server.threads, self._server.positions
        options.on_progress(1.0)

    @staticmethod
    def hardware() -> Hardware:
        """The hardware that the wheel finds here. The compilers' fault does not affect its code for AMX."""
        return Hardware(build=f"xllamacpp {xllamacpp.__version__}", gpu=has_gpu())

    def begin(self, request: Request) -> Run:
        """A run for a request; nothing is evaluated yet.

        Raises EngineError if it cannot fit the context, and for an answer that begins with given
        tokens, which the server cannot give. What it cannot observe is left out.
        """
        if request.given:
            raise EngineError(
                "The prebuilt engine (xllamacpp) reports only the probabilities of the tokens it chooses. It "
                "cannot continue given ones. The engine `local` can: run "
                f"{how_to_install('local')} (it needs a C compiler)."
            )
        room = room_for_prompt(self.positions, request.max_tokens)
        prompt = self._tokenize_prompt(request.prompt, room)
        return PrebuiltGenerationRun(self._evaluator, request, prompt)

    def interrupt(self, *, after_step: bool = False) -> None:  # noqa: ARG002 - it always is
        """As for `Backend`. Every interruption comes after a step here."""
        self._evaluator.interrupted = True

    def resume(self) -> None:
        """Take the interruption back."""
        self._evaluator.interrupted = False

    def close(self) -> None:
        """Free the model. Nothing of it may be used any more."""
        self._server.close()

    def _load(self, options: LoadOptions) -> Server:
        """The model on the GPU where that was asked for and works, else on the processor."""
        return load_anyhow(
            lambda options: Server(options, sequences=SEQUENCES),
            options,
            self.notes,
            gpu=has_gpu(),
            advice="this build of xllamacpp has no support for one, or found none. Its project page says "
            "where builds for CUDA, ROCm and Vulkan are. Install one, or set gpuLayers to 0.",
        )

    def _tokenize_prompt(self, prompt: Prompt, room: int) -> list[int]:
        bos, begins = self._bos, self._begins_with_bos
        return prompt_tokens(prompt, self._server.tokenize, room, bos, begins=begins)
