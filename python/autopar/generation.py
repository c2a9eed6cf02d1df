# SPDX-License-Identifier: Apache-2.0
"""`autopar.Generator`: text, token by token, from a decoder whose key/value caches stay on the ranks."""

import collections
from types import TracebackType
from typing import Collection, Dict, Iterator, List, Mapping, Optional, Sequence, Type, Union

import numpy as np

from .context import Context
from .errors import Error
from .session import EXIT_USAGE, Path, Port, Session
from .world import World

IDS, LENGTH, LOGITS = "input_ids", "cache_length", "logits"
MASK, POSITIONS = "attention_mask", "position_ids"
#: What a model reads beside the tokens to know how many its caches hold.
FORMS = ({LENGTH}, {MASK}, {MASK, POSITIONS})


class Generator:
    """A decoder compiled with --carry "present.*=past_key_values.*", that takes input_ids [batch, tokens] and gives logits
    [batch, tokens, vocabulary]. Beside the tokens it takes what the model zoo's --cache has, cache_length [batch], or what
    onnxruntime-genai's builder has: attention_mask [batch, room] and perhaps position_ids [batch, tokens]; or what Optimum's
    exports have, whose caches grow: attention_mask [batch, room + tokens] and position_ids.

    step: the artifact for one token at a time, or, where caches do not grow, a few.
    prefill: one of the same model, batch and caches that takes more tokens at once, for prompts; compiled beside `step`, both hold
    parameters and caches once. Without it prompts go through `step`.
    counts_positions: caches grow, and the model needs no position_ids: it counts them by its attention mask, as bloom does, or looks at
    distances alone, as t5 does.
    context: names, with *, of inputs and carried states that are each text's own and stay as they are while it is written: keys and
    values of the source that an encoder made, and their mask.
    threads, initializer, world: as for Session; every process of a world gets the tokens.
    A context manager, or to be closed. Raises Error as Session does, 2 for artifacts that do not fit.
    """

    def __init__(self, step: Path, prefill: Optional[Path] = None, *, counts_positions: bool = False, context: Sequence[str] = (),
                 threads: int = 0, initializer: str = "", world: Optional[World] = None) -> None:
        self._sessions: List[Session] = []
        self._context = Context(context)
        try:
            # The program of more tokens first: the other one has its room for activations too.
            for path in [step] if prefill is None else [prefill, step]:
                beside = self._sessions[0] if self._sessions else None
                self._sessions.append(Session(path, threads=threads, initializer=initializer, beside=beside, world=world))
                self._context.take(self._sessions[-1], path)
                _check_form(self._sessions[-1], self._context, path)
            self._step, self._prefill = self._sessions[-1], self._sessions[0]
            if self._step.states != self._prefill.states:
                raise Error(EXIT_USAGE, f"{prefill} carries other caches than {step}; compile both with the same batch and --cache")
            if _grows(self._step, self._context):
                _check_growing(self._step, step, counts_positions)
        except BaseException:
            self.close()
            raise
        self.batch: int = _port(self._step, IDS).shape[0]
        #: Tokens that the caches have room for: prompt and answer together.
        self.room: int = _room(self._step, self._context)
        self._append = _grows(self._step, self._context)
        self._latest = self._step  # whose caches hold the texts

    def generate(self, prompts: Sequence[Sequence[int]], tokens: int, *, end: Union[int, Collection[int], None] = None,
                 temperature: float = 0.0, top_k: int = 0, top_p: float = 1.0, seed: int = 0,
                 context: Optional[Mapping[str, np.ndarray]] = None) -> List[List[int]]:
        """The tokens that follow each prompt, at most `tokens`, up to and with the token `end`, or one of several. Options: as for stream().

        Any number of prompts: where a text ends, the next prompt takes its row of the batch while the others go on (continuous
        batching; Yu et al., "Orca", OSDI 2022). Where caches grow, the next prompts begin once all texts of a batch have ended.
        """
        texts = [list(prompt) for prompt in prompts]
        self._check(texts, tokens)
        choice = _Choice(temperature, top_k, top_p, seed)
        given = self._context.arrays(context or {}, len(texts))
        ends = set() if end is None else {end} if isinstance(end, (int, np.integer)) else set(end)
        answers: List[List[int]] = [[] for _ in texts]
        waiting = collections.deque(range(len(texts)))
        rows = _Rows(min(self.batch, len(texts)), self.batch, self.room)
        places: Dict[int, int] = {}  # of a row that is taken: whose text it has
        while waiting or places:
            if not self._append or not places:
                for row in sorted(set(range(len(rows.texts))) - set(places)):
                    if waiting:
                        places[row] = waiting.popleft()
                        rows.begin(row, texts[places[row]])
                        self._context.begin(row, given, places[row])
            active = sorted(places)
            scores = self._read(rows)
            for row, token in zip(active, self._choose(choice, scores, active)):
                answer = answers[places[row]]
                answer.append(int(token))
                if int(token) in ends or len(answer) == tokens:
                    del places[row]
                else:
                    rows.texts[row].append(int(token))
        return answers

    def stream(self, prompts: Sequence[Sequence[int]], tokens: int, *, temperature: float = 0.0, top_k: int = 0,
               top_p: float = 1.0, seed: int = 0, context: Optional[Mapping[str, np.ndarray]] = None) -> Iterator[np.ndarray]:
        """One array [prompts] of tokens after another, `tokens` of them.

        prompts: at most as many as the batch, of any lengths above 0. temperature: 0 takes the most likely token, above 0
        draws by the softmax of logits / temperature, among the top_k most likely where that is not 0, and of these among the
        fewest that have the probability top_p together (nucleus sampling; Holtzman et al., ICLR 2020); the same seed draws the
        same tokens. context: arrays [prompts, ...] of what Generator was told to be context; where they are shorter than the program
        takes, zeros follow, which a mask has to hide.
        """
        texts = [list(prompt) for prompt in prompts]
        self._check(texts, tokens)
        choice = _Choice(temperature, top_k, top_p, seed)
        if len(texts) > self.batch:
            raise Error(EXIT_USAGE, f"the artifact takes 1 to {self.batch} prompts at a time, got {len(texts)}; generate() takes any number")
        return self._stream(texts, tokens, choice, self._context.arrays(context or {}, len(texts)))

    def _stream(self, texts: List[List[int]], tokens: int, choice: "_Choice", given: Dict[str, np.ndarray]) -> Iterator[np.ndarray]:
        rows = _Rows(len(texts), self.batch, self.room)
        for row, text in enumerate(texts):
            rows.begin(row, text)
            self._context.begin(row, given, row)
        for _ in range(tokens):
            scores = self._read(rows)
            chosen = self._choose(choice, scores, range(len(texts)))
            yield chosen
            for text, token in zip(rows.texts, chosen):
                text.append(int(token))

    def _choose(self, choice: "_Choice", scores: Mapping[int, Optional[np.ndarray]], rows: Sequence[int]) -> np.ndarray:
        """The next tokens of the rows. The first process of a world chooses for all, as it alone has scores."""
        known = [scores[row] for row in rows]
        chosen = np.empty(len(known), np.int64)
        if known[0] is not None:
            chosen[:] = choice.of(np.stack(known))
        self._step.broadcast(chosen)
        return chosen

    def _read(self, rows: "_Rows") -> Dict[int, Optional[np.ndarray]]:
        """Takes into the caches what they lack of the texts; by row, the scores behind its last token, of those that lacked any."""
        is_long = rows.lacking() > _port(self._step, IDS).shape[1]
        session = self._prefill if is_long else self._step
        if session is not self._latest:
            for port in session.states if rows.lengths.any() else ():
                if not self._step.shares_state(port.name) and not self._context.has(port.name):
                    session.set_state(port.name, self._latest.state(port.name))
            self._latest = session
        self._context.put(session)
        return self._append_to(session, rows) if self._append else self._write(session, rows)

    def _append_to(self, session: Session, rows: "_Rows") -> Dict[int, Optional[np.ndarray]]:
        """For caches that grow: new rows come last and the oldest fall out. Texts end in the same column, as distances between
        rows are those between tokens only where nothing lies between; what fills up in front is hidden."""
        width = _port(session, IDS).shape[1]
        lacking = [text[rows.lengths[i] :] for i, text in enumerate(rows.texts)]
        columns = -(-max(map(len, lacking)) // width) * width
        ids, seen = np.zeros((self.batch, columns), np.int64), np.zeros((self.batch, columns), bool)
        for i, part in enumerate(lacking):
            ids[i, columns - len(part) :] = part
            seen[i, columns - len(part) :] = True
        seen[len(lacking) :] = True  # rows of the batch without a text look at themselves
        places = np.maximum(rows.lengths[:, None] + seen.cumsum(axis=1) - 1, 0)
        for begin in range(0, columns, width):
            part = np.s_[:, begin : begin + width]
            mask = np.concatenate([rows.held, seen[part]], axis=1)
            logits = self._tell(session, {IDS: ids[part], MASK: mask, POSITIONS: places[part]})
            rows.held[:] = mask[:, width:]
        rows.lengths += seen.sum(axis=1)
        return {i: None if logits is None else logits[i, -1] for i, part in enumerate(lacking) if part}

    def _write(self, session: Session, rows: "_Rows") -> Dict[int, Optional[np.ndarray]]:
        """For caches that are written in place, each text's where it ends."""
        width = _port(session, IDS).shape[1]
        lengths = rows.lengths
        scores: Dict[int, Optional[np.ndarray]] = {}
        while any(lengths[i] < len(text) for i, text in enumerate(rows.texts)):
            # A step has to fit into the caches: near their end it begins earlier, and writes what they hold once more.
            begins = np.minimum(lengths, self.room - width)
            ids = np.zeros((self.batch, width), np.int64)
            for i, text in enumerate(rows.texts):
                part = text[begins[i] : begins[i] + width]
                ids[i, : len(part)] = part
            logits = self._run(session, ids, begins)
            for i, text in enumerate(rows.texts):
                if lengths[i] < len(text):
                    lengths[i] = min(begins[i] + width, len(text))
                    scores[i] = None if logits is None else logits[i, lengths[i] - begins[i] - 1]
        return scores

    def _run(self, session: Session, ids: np.ndarray, begins: np.ndarray) -> Optional[np.ndarray]:
        """Logits of tokens behind the first `begins` ones. What fills up batch and columns is never attended by others."""
        places = begins[:, None] + np.arange(ids.shape[1])
        return self._tell(session, {IDS: ids, LENGTH: begins, MASK: np.arange(self.room) <= places[:, -1:], POSITIONS: places})

    def _tell(self, session: Session, told: Dict[str, np.ndarray]) -> Optional[np.ndarray]:
        """Logits of a step that is given what it takes of `told` and of the context; in a world, at the first process."""
        told = {**told, **self._context.rows}
        given = {port.name: told[port.name].astype(port.dtype, copy=False) for port in session.inputs}
        outputs = session.run(given, everywhere=False)
        return outputs[LOGITS].astype(np.float32) if outputs else None

    def _check(self, prompts: Sequence[Sequence[int]], tokens: int) -> None:
        if not prompts:
            raise Error(EXIT_USAGE, "expected at least one prompt")
        if tokens < 1:
            raise Error(EXIT_USAGE, f"tokens must be above 0, got {tokens}")
        if tokens > self.room:
            raise Error(EXIT_USAGE, f"tokens is {tokens}, the caches have room for {self.room} of prompt and answer; export the model with "
                                    f"a longer --cache")
        for i, prompt in enumerate(prompts):
            if not all(isinstance(token, (int, np.integer)) and not isinstance(token, bool) for token in prompt):
                raise Error(EXIT_USAGE, f"prompt {i} is no list of tokens, which are whole numbers: {prompt!r:.80}")
            if not 1 <= len(prompt) <= self.room - tokens + 1:
                raise Error(EXIT_USAGE, f"prompt {i} has {len(prompt)} tokens, expected 1 to {self.room - tokens + 1}: the caches "
                                        f"have room for {self.room} with the {tokens} to come (the last is not cached)")

    def load_weights(self, initializer: Path) -> None:
        """Other parameters for all programs, as by Session.load_weights()."""
        for session in self._sessions:
            session.load_weights(initializer)

    def close(self) -> None:
        """Frees the memory; closing twice is allowed."""
        for session in self._sessions:
            session.close()

    def __enter__(self) -> "Generator":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


class _Rows:
    """The texts in the rows of a batch. `lengths` [batch] says how many tokens of each the caches hold, and `held` [batch, room] which
    rows of caches that grow hold something."""

    def __init__(self, texts: int, batch: int, room: int) -> None:
        self.texts: List[List[int]] = [[] for _ in range(texts)]
        self.lengths = np.zeros(batch, np.int64)
        self.held = np.zeros((batch, room), bool)

    def begin(self, row: int, text: Sequence[int]) -> None:
        """Another text, of which the caches hold nothing."""
        self.texts[row] = list(text)
        self.lengths[row] = 0
        self.held[row] = False

    def lacking(self) -> int:
        """The most tokens that caches lack of a text."""
        return max(len(text) - int(length) for text, length in zip(self.texts, self.lengths))


def _port(session: Session, name: str) -> Port:
    return next(port for port in session.inputs + session.outputs if port.name == name)


def _caches(session: Session, context: Context) -> List[Port]:
    return [port for port in session.states if not context.has(port.name)]


def _room(session: Session, context: Context) -> int:
    return min(port.shape[2] for port in _caches(session, context))


def _grows(session: Session, context: Context) -> bool:
    """Whether caches grow by the tokens of a step, which a mask of both tells."""
    masks = [port.shape[1] for port in session.inputs if port.name == MASK]
    return masks == [_room(session, context) + _port(session, IDS).shape[1]]


def _check_form(session: Session, context: Context, path: Path) -> None:
    ports: Dict[str, Port] = {port.name: port for port in session.inputs + session.outputs}
    ranks = {IDS: 2, LENGTH: 1, LOGITS: 3, MASK: 2, POSITIONS: 2}
    given = {port.name for port in session.inputs if not context.has(port.name)}
    if (not given >= {IDS} or given - {IDS} not in FORMS or LOGITS not in ports
            or any(len(ports[name].shape) != ranks[name] for name in [*given, LOGITS])):
        raise Error(EXIT_USAGE, f"{path}: expected inputs {IDS} [batch, tokens] and {LENGTH} [batch], or {MASK} [batch, room] and perhaps "
                                f"{POSITIONS}, and {LOGITS} [batch, tokens, vocabulary]; its inputs are {', '.join(sorted(given))}; export "
                                'the model with caches and compile it with --carry "present.*=past_key_values.*"; inputs that are each text\'s own '
                                "are context")
    caches = _caches(session, context)
    if not caches or any(len(port.shape) != 4 for port in caches):
        raise Error(EXIT_USAGE, f"{path}: expected caches [batch, heads, room, channels] that are carried from step to step: compile "
                                'with --carry "present.*=past_key_values.*"')
    room, width = _room(session, context), ports[IDS].shape[1]
    if MASK in given and ports[MASK].shape[1] not in (room, room + width):
        raise Error(EXIT_USAGE, f"{path}: expected an {MASK} as long as the caches, {room}, got {ports[MASK].shape[1]}: bind past and total "
                                "length to the same number")


def _check_growing(session: Session, path: Path, counts_positions: bool) -> None:
    if _port(session, IDS).shape[1] != 1:
        raise Error(EXIT_USAGE, f"{path} takes {_port(session, IDS).shape[1]} tokens at a time; where caches grow, the step takes one: bind "
                                "sequence_length=1")
    if not counts_positions and not any(port.name == POSITIONS for port in session.inputs):
        raise Error(EXIT_USAGE, f"{path} takes no {POSITIONS}: if it counts them by its {MASK} (bloom), or looks at distances alone (t5), say "
                                f"counts_positions=True; if by the length of its caches, which are always full here, export it with {POSITIONS}")


class _Choice:
    """How the next tokens are chosen."""

    def __init__(self, temperature: float, top_k: int, top_p: float, seed: int) -> None:
        if temperature < 0 or top_k < 0 or not 0 < top_p <= 1:
            raise Error(EXIT_USAGE, f"temperature and top_k must not be negative, top_p above 0 and at most 1, got {temperature}, {top_k}, {top_p}")
        self._temperature, self._top_k, self._top_p = temperature, top_k, top_p
        self._random = np.random.default_rng(seed)

    def of(self, scores: np.ndarray) -> np.ndarray:
        """One token per row of scores [rows, vocabulary]."""
        if self._temperature == 0:
            return scores.argmax(axis=-1)
        scaled = scores.astype(np.float64) / self._temperature
        if 0 < self._top_k < scaled.shape[-1]:
            least = np.partition(scaled, -self._top_k, axis=-1)[:, -self._top_k]
            scaled = np.where(scaled < least[:, None], -np.inf, scaled)
        if self._top_p < 1:
            order = np.argsort(-scaled, axis=-1, kind="stable")
            weights = np.exp(np.take_along_axis(scaled, order, axis=-1) - scaled.max(axis=-1, keepdims=True))
            before = (weights.cumsum(axis=-1) - weights) / weights.sum(axis=-1, keepdims=True)
            is_out = np.empty(scaled.shape, bool)
            np.put_along_axis(is_out, order, before >= self._top_p, axis=-1)
            scaled = np.where(is_out, -np.inf, scaled)
        # The largest of scores plus Gumbel noise is a draw from their softmax.
        return (scaled + self._random.gumbel(size=scaled.shape)).argmax(axis=-1)
