# SPDX-License-Identifier: Apache-2.0
"""Text from decoders whose key/value caches stay on the ranks, against onnxruntime reading whole sequences."""

import pathlib
import subprocess
from typing import Dict, List, Optional, Union

import numpy as np
import onnx
import onnxruntime
import pytest

import autopar
from autopar import generation, models
from autopar.tools import find_tool
from emulated_cuda import assert_alike, on_both

VOCAB, BATCH, ROOM = 61, 3, 24
NAMES = ("gpt2-124m", "llama3-8b", "qwen3-30b-a3b")
#: With room for all tokens at one expert nothing is dropped.
SIZES = {"qwen3-30b-a3b": {"kv_heads": 2, "head_size": 8, "experts": 4, "top_k": 2, "inner": 24, "capacity_factor": 2.0}}
SMALL = {"layers": 2, "hidden": 32, "heads": 4, "vocab": VOCAB, "positions": 64, "opset": 24}
CARRY = ["--quiet", "--carry", "present.*=past_key_values.*"]
PROMPTS = [[5, 9, 2], [7], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]]


class Decoder:
    """A model that reads whole sequences, and the same with caches."""

    def __init__(self, name: str, folder: pathlib.Path) -> None:
        self.folder, self.cached = folder, folder / f"{name}-cached.onnx"
        sizes = {**SMALL, **SIZES.get(name, {})}
        models.save(name, folder / f"{name}.onnx", **sizes)
        models.save(name, self.cached, cache=ROOM, **sizes)
        self.whole = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"))

    def scores(self, sequence: List[int]) -> np.ndarray:
        return self.whole.run(["logits"], {"input_ids": np.array([sequence])})[0][0]

    def follow(self, prompt: List[int], tokens: int) -> List[int]:
        """The most likely tokens, from the whole sequence each time."""
        sequence = list(prompt)
        for _ in range(tokens):
            sequence.append(int(self.scores(sequence)[-1].argmax()))
        return sequence[len(prompt) :]

    def compile(self, tokens: int, name: str, *options: str, **settings: object) -> autopar.Compiled:
        return autopar.compile(self.cached, self.folder / f"{name}.bin", bind={"batch": BATCH, "seq": tokens}, options=[*CARRY, *options], **settings)


@pytest.fixture(name="decoders", scope="module")
def fixture_decoders(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Decoder]:
    return {name: Decoder(name, tmp_path_factory.mktemp(name)) for name in NAMES}


@pytest.mark.parametrize("name", ["gpt2-124m", "llama3-8b"])
def test_caches_of_a_narrow_model_are_narrow(decoders: Dict[str, Decoder], name: str) -> None:
    """They hold what a model in f32 has in its own, rounded, by whatever plan."""
    decoder, kept = decoders[name], []
    for what, options, ranks in (("wide", (), 1), ("narrow", ("--precision", "bf16"), 1), ("narrow-3", ("--precision", "bf16", "--mesh", "data=3"), 3)):
        with autopar.load(decoder.compile(1, what, *options, ranks=ranks).path) as session:
            for place, token in enumerate(PROMPTS[2]):
                session.run({"input_ids": np.full((BATCH, 1), token), "cache_length": np.full(BATCH, place)})
            kept.append({port.name: session.state(port.name) for port in session.states})
    wide, *narrow = kept
    assert len(wide) == 4
    for cache, array in wide.items():
        for states in narrow:
            assert states[cache].dtype.name == "bfloat16"
            assert np.abs(array - states[cache].astype(np.float32)).max() <= 0.02 * np.abs(array).max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ranks, options", [(1, ()), (2, ("--mesh", "tensor=2")), (3, ("--mesh", "data=3")), (2, ("--stages", "2"))])
def test_prompts_of_different_lengths_are_followed_by_the_tokens_of_whole_sequences(decoders: Dict[str, Decoder], name: str, ranks: int,
                                                                                    options: tuple) -> None:
    decoder = decoders[name]
    step = decoder.compile(1, f"step-{ranks}", *options, ranks=ranks)
    with autopar.Generator(step) as generator:
        assert generator.room == ROOM
        assert generator.generate(PROMPTS, 8) == [decoder.follow(prompt, 8) for prompt in PROMPTS]
        assert generator.generate(PROMPTS[2:], 3) == [decoder.follow(PROMPTS[2], 3)], "the caches of before are forgotten"


def test_prompts_go_through_a_program_of_more_tokens_on_another_plan(decoders: Dict[str, Decoder]) -> None:
    decoder = decoders["llama3-8b"]
    step, prefill = decoder.compile(1, "step", ranks=2), decoder.compile(4, "prefill", ranks=1)
    with autopar.Generator(step, prefill) as generator:
        assert generator.generate(PROMPTS, 6) == [decoder.follow(prompt, 6) for prompt in PROMPTS]


@pytest.mark.parametrize("ranks, beside", [(None, False), (1, False), (2, True)])
def test_the_next_prompt_takes_the_row_of_a_text_that_has_ended(decoders: Dict[str, Decoder], ranks: Optional[int], beside: bool) -> None:
    """Seven prompts in three rows, without a program for prompts, with one whose caches are its own, and with one in common."""
    decoder = decoders["llama3-8b"]
    step = decoder.compile(1, "step", ranks=2)
    prefill = None if ranks is None else decoder.compile(4, f"prefill-{beside}", ranks=ranks, beside=step.path if beside else None)
    prompts = [*PROMPTS, [8, 8], [3, 1, 4, 1, 5, 9, 2], [60], [11, 12, 13, 14, 15]]
    texts = [decoder.follow(prompt, 8) for prompt in prompts]
    end = texts[1][2]
    ended = [text[: text.index(end) + 1] if end in text else text for text in texts]
    assert len({len(text) for text in ended}) > 1, "some end before others"
    with autopar.Generator(step, prefill) as generator:
        assert generator.generate(prompts, 8) == texts
        assert generator.generate(prompts, 8, end=end) == ended
        steps: List[int] = []
        read = generator._read
        generator._read = lambda rows: (steps.append(1), read(rows))[1]  # type: ignore[method-assign]
        generator.generate(prompts, 8, end=end)
    assert len(steps) < 3 * 8, "rows do not wait for each other"


def test_scores_are_those_of_the_whole_sequence(decoders: Dict[str, Decoder]) -> None:
    decoder = decoders["gpt2-124m"]
    sequence = np.random.default_rng(1).integers(0, VOCAB, (BATCH, 12))
    with autopar.Session(decoder.compile(4, "four", ranks=2)) as session:
        for first in (0, 4, 8):
            part = {"input_ids": sequence[:, first : first + 4], "cache_length": np.full(BATCH, first)}
            scores = session.run(part)["logits"]
            for row in range(BATCH):
                expected = decoder.scores(list(sequence[row, : first + 4]))[first:]
                np.testing.assert_allclose(scores[row], expected, rtol=1e-3, atol=1e-5)


def test_states_are_read_and_written_whole(decoders: Dict[str, Decoder]) -> None:
    with autopar.Session(decoders["gpt2-124m"].compile(1, "states", "--mesh", "tensor=2", ranks=2)) as session:
        assert [port.name for port in session.states[:2]] == ["past_key_values.0.key", "past_key_values.0.value"]
        shape = session.states[0].shape
        assert not session.state("past_key_values.0.key").any(), "caches start as zeros"
        value = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        session.set_state("past_key_values.0.key", value)
        np.testing.assert_array_equal(session.state("past_key_values.0.key"), value)
        with pytest.raises(autopar.Error, match="there is no state 'key'; the states are past_key_values.0.key"):
            session.state("key")
        with pytest.raises(autopar.Error, match=r"expected past_key_values.0.key: f32 \[3,4,24,8\], got past_key_values.0.key: f32 \[2\]"):
            session.set_state("past_key_values.0.key", np.zeros(2, np.float32))


def test_the_same_seed_draws_the_same_tokens_and_an_end_ends(decoders: Dict[str, Decoder]) -> None:
    with autopar.Generator(decoders["gpt2-124m"].compile(1, "draws")) as generator:
        drawn = generator.generate(PROMPTS, 8, temperature=2.0, top_k=20, seed=3)
        assert drawn == generator.generate(PROMPTS, 8, temperature=2.0, top_k=20, seed=3)
        assert drawn != generator.generate(PROMPTS, 8, temperature=2.0, top_k=20, seed=4)
        assert generator.generate(PROMPTS, 5, temperature=9.0, top_k=1) == generator.generate(PROMPTS, 5)
        assert generator.generate(PROMPTS, 5, temperature=9.0, top_p=1e-9) == generator.generate(PROMPTS, 5)
        likely = generator.generate(PROMPTS[:1], 8)[0]
        assert generator.generate(PROMPTS[:1], 8, end=(-1, likely[3]))[0] == likely[: likely.index(likely[3]) + 1]
        assert generator.generate(PROMPTS[:1], 8, end=likely[3])[0] == likely[: likely.index(likely[3]) + 1]


def test_a_nucleus_has_the_fewest_tokens_that_have_its_probability_together() -> None:
    scores = np.log(np.array([[0.4, 0.3, 0.2, 0.1], [0.1, 0.1, 0.7, 0.1]]))
    choice = generation._Choice(1.0, 0, 0.65, seed=1)
    drawn = np.array([choice.of(scores) for _ in range(2000)])
    np.testing.assert_allclose(np.bincount(drawn[:, 0], minlength=4) / 2000, [4 / 7, 3 / 7, 0, 0], atol=0.04)
    assert (drawn[:, 1] == 2).all()
    both = generation._Choice(1.0, 2, 0.99, seed=1)
    assert {int(both.of(scores[:1])[0]) for _ in range(200)} == {0, 1}, "top_p is of what top_k leaves"


def test_what_does_not_fit_is_refused(decoders: Dict[str, Decoder], tmp_path: pathlib.Path) -> None:
    decoder = decoders["gpt2-124m"]
    with autopar.Generator(decoder.compile(1, "fits")) as generator:
        with pytest.raises(autopar.Error, match="takes 1 to 3 prompts at a time, got 4; generate.. takes any number"):
            generator.stream([[1]] * 4, 1)
        with pytest.raises(autopar.Error, match="expected at least one prompt"):
            generator.generate([], 1)
        with pytest.raises(autopar.Error, match="tokens is 25, the caches have room for 24 of prompt and answer"):
            generator.generate([[1]], 25)
        with pytest.raises(autopar.Error, match="prompt 0 is no list of tokens, which are whole numbers: .1.5."):
            generator.generate([[1.5]], 5)  # type: ignore[list-item]
        with pytest.raises(autopar.Error, match="prompt 1 has 0 tokens, expected 1 to 20"):
            generator.generate([[1], []], 5)
        with pytest.raises(autopar.Error, match="prompt 0 has 21 tokens, expected 1 to 20: the caches have room for 24"):
            generator.generate([[1] * 21], 5)
        with pytest.raises(autopar.Error, match="tokens must be above 0, got 0"):
            generator.generate([[1]], 0)
        with pytest.raises(autopar.Error, match="top_k must not be negative, top_p above 0 and at most 1, got 1.0, 0, 1.5"):
            generator.generate([[1]], 1, temperature=1.0, top_p=1.5)
        assert len(generator.generate([[1] * 20], 5)[0]) == 5, "to the last place"
    whole = autopar.compile(decoder.folder / "gpt2-124m.onnx", tmp_path / "w.bin", bind={"batch": 1, "seq": 4})
    with pytest.raises(autopar.Error, match="expected inputs input_ids"):
        autopar.Generator(whole)
    with autopar.Session(whole) as session, pytest.raises(autopar.Error, match="keeps nothing from step to step"):
        session.state("x")


def test_an_emulated_gpu_computes_the_same(decoders: Dict[str, Decoder], tmp_path: pathlib.Path) -> None:
    inputs = {"input_ids": np.random.default_rng(2).integers(0, VOCAB, (BATCH, 2)), "cache_length": np.array([0, 3, 7])}
    results = on_both(decoders["llama3-8b"].cached, tmp_path, inputs, steps=2, bind={"batch": BATCH, "seq": 2}, options=CARRY)
    assert_alike(results, 1e-4)


def test_prompts_are_a_call_for_attention_on_an_emulated_gpu(decoders: Dict[str, Decoder], tmp_path: pathlib.Path) -> None:
    """In bf16, where cuDNN has it: of 16 tokens and more."""
    inputs = {"input_ids": np.random.default_rng(2).integers(0, VOCAB, (BATCH, 16)), "cache_length": np.array([0, 3, 7])}
    results = on_both(decoders["llama3-8b"].cached, tmp_path, inputs, bind={"batch": BATCH, "seq": 16}, options=[*CARRY, "--precision", "bf16"])
    assert_alike(results, 2e-2)
    text = subprocess.run([find_tool("autopar-translate"), "--dump", tmp_path / "cuda.bin"], check=True, capture_output=True, text=True).stdout
    assert " attention (" in text


def test_caches_of_bfloat16_are_masked_without_a_library(tmp_path: pathlib.Path) -> None:
    models.save("gpt2-124m", tmp_path / "m.onnx", dtype="bfloat16", cache=ROOM, **SMALL)
    for level in ("x86-64-v3", "x86-64-v4"):
        autopar.compile(tmp_path / "m.onnx", tmp_path / "m.bin", bind={"batch": BATCH, "seq": 1}, options=[*CARRY, "--target-cpu", level])


def test_models_without_the_operators_say_which_version_has_them() -> None:
    with pytest.raises(models.ModelError, match="a key/value cache needs operator set 24 or newer, got 17; add --opset 24"):
        models.describe("gpt2-124m", cache=8)
    with pytest.raises(models.ModelError, match="cache=2048 is longer than positions=1024"):
        models.describe("gpt2-124m", cache=2048, opset=24)


@pytest.fixture(name="biased", scope="module")
def fixture_biased(decoders: Dict[str, Decoder], tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A decoder whose scores have what an input, and what a carried state says: scores + given + kept."""
    path = tmp_path_factory.mktemp("biased") / "model.onnx"
    model = onnx.load(decoders["llama3-8b"].cached)
    graph = model.graph
    for node in graph.node:
        node.output[:] = ["plain" if name == "logits" else name for name in node.output]
    graph.initializer.append(onnx.numpy_helper.from_array(np.array([1]), "one"))
    graph.node.extend([onnx.helper.make_node("Add", ["given", "kept.in"], ["own"]), onnx.helper.make_node("Unsqueeze", ["own", "one"], ["own.row"]),
                       onnx.helper.make_node("Add", ["plain", "own.row"], ["logits"]), onnx.helper.make_node("Identity", ["kept.in"], ["kept.out"])])
    biases = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["batch", VOCAB]) for name in ("given", "kept.in", "kept.out")]
    graph.input.extend(biases[:2])
    graph.output.append(biases[2])
    onnx.save(model, path)
    return path


def biased_step(biased: pathlib.Path, name: str, tokens: int, ranks: int, beside: Optional[pathlib.Path] = None) -> pathlib.Path:
    return autopar.compile(biased, biased.parent / f"{name}.bin", bind={"batch": BATCH, "seq": tokens}, ranks=ranks, beside=beside,
                           options=["--quiet", "--carry", "present.*=past_key_values.*,kept.out=kept.in"]).path


@pytest.mark.parametrize("prefill", [None, "apart", "beside"])
def test_each_text_has_its_context(decoders: Dict[str, Decoder], biased: pathlib.Path, prefill: Optional[str]) -> None:
    """By an input and by a state, in rows that texts take one after another."""
    step = biased_step(biased, "step", 1, 2)
    more = biased_step(biased, f"prefill-{prefill}", 4, 2 if prefill == "beside" else 1, step if prefill == "beside" else None) if prefill else None
    prompts = [*PROMPTS, [8, 8], [3, 1, 4, 1, 5, 9, 2], [60]]
    random = np.random.default_rng(7)
    context = {name: random.standard_normal((len(prompts), VOCAB)).astype(np.float32) for name in ("given", "kept.in")}
    expected = []
    for prompt, bias in zip(prompts, sum(context.values())):
        sequence = list(prompt)
        for _ in range(5):
            sequence.append(int((decoders["llama3-8b"].scores(sequence)[-1] + bias).argmax()))
        expected.append(sequence[len(prompt) :])
    with autopar.Generator(step, more, context=["given", "kept.*"]) as generator:
        assert generator.room == ROOM
        assert generator.generate(prompts, 5, context=context) == expected
        rows = {name: array[:2] for name, array in context.items()}
        assert np.array(list(generator.stream(prompts[:2], 5, context=rows))).T.tolist() == expected[:2]
        # What is shorter is filled up with zeros, as if these tokens had no bias.
        short = {"given": context["given"][:1, :5], "kept.in": context["kept.in"][:1]}
        filled = {"given": np.where(np.arange(VOCAB) < 5, context["given"][:1], 0), "kept.in": context["kept.in"][:1]}
        assert generator.generate(prompts[:1], 5, context=short) == generator.generate(prompts[:1], 5, context=filled)


@pytest.mark.parametrize("arrays, why", [
    (None, "context: expected arrays of given, kept.in, got nothing"),
    ({"given": (1, VOCAB)}, "expected arrays of given, kept.in, got given"),
    ({"given": (2, VOCAB), "kept.in": (1, VOCAB)}, r"context 'given': expected \[1, 61\], or less but for the 1 texts, got \[2, 61\]"),
    ({"given": (1, VOCAB + 1), "kept.in": (1, VOCAB)}, r"context 'given': expected \[1, 61\], or less but for the 1 texts, got \[1, 62\]"),
    ({"given": (1,), "kept.in": (1, VOCAB)}, r"got \[1\]"),
])
def test_another_context_is_refused(biased: pathlib.Path, arrays: Optional[Dict[str, tuple]], why: str) -> None:
    context = None if arrays is None else {name: np.zeros(shape, np.float32) for name, shape in arrays.items()}
    with autopar.Generator(biased_step(biased, "step", 1, 2), context=["given", "kept.*"]) as generator:
        with pytest.raises(autopar.Error, match=why):
            generator.generate([[1]], 2, context=context)


def test_programs_of_one_generator_have_one_context(biased: pathlib.Path) -> None:
    step = biased_step(biased, "step", 1, 2)
    model = onnx.load(biased)
    for port in (*model.graph.input, *model.graph.output):
        port.name = {"given": "other"}.get(port.name, port.name)
    for node in model.graph.node:
        node.input[:] = ["other" if name == "given" else name for name in node.input]
    onnx.save(model, biased.parent / "other.onnx")
    prefill = autopar.compile(biased.parent / "other.onnx", biased.parent / "other.bin", bind={"batch": BATCH, "seq": 4}, options=["--quiet", "--carry", "present.*=past_key_values.*,kept.out=kept.in"]).path
    with pytest.raises(autopar.Error, match="takes another context than the program beside it"):
        autopar.Generator(step, prefill, context=["[go][it][vh]e*", "kept.*"])


def test_a_context_of_another_kind_is_refused(biased: pathlib.Path) -> None:
    with autopar.Generator(biased_step(biased, "step", 1, 2), context=["given", "kept.*"]) as generator:
        with pytest.raises(autopar.Error, match="context 'given': expected float32, got complex64"):
            generator.generate([[1]], 2, context={"given": np.zeros((1, VOCAB), np.complex64), "kept.in": np.zeros((1, VOCAB), np.float32)})


@pytest.mark.parametrize("context, why", [
    ([], "its inputs are cache_length, given, input_ids.*inputs that are each text's own are context"),
    ("given", "context is a list of names"),
    (["given", "kept.*", "cross.*"], r"context 'cross.\*': .* has no such input and carries no such state; its inputs are .*given.*, its states .*kept.in"),
    (["given"], "expected caches"),
])
def test_a_context_that_the_program_does_not_have_is_refused(biased: pathlib.Path, context: Union[str, List[str]], why: str) -> None:
    with pytest.raises(autopar.Error, match=why):
        autopar.Generator(biased_step(biased, "step", 1, 2), context=context)
