# SPDX-License-Identifier: Apache-2.0
"""Text from decoders whose caches grow by concatenation, against onnxruntime, whose caches do grow."""

import pathlib
from typing import Dict, List

import numpy as np
import onnxruntime
import pytest

import autopar
import growing_decoder

BATCH, ROOM, TOKENS = 3, 24, 9
PROMPTS = [[5, 9, 2, 40, 11, 12, 13], [7], [3, 1, 4, 1, 5]]
CARRY = ["--quiet", "--carry", "present.*=past_key_values.*"]


def follow(model: pathlib.Path, prompt: List[int]) -> List[int]:
    """The most likely tokens, from caches that hold what was read and nothing else."""
    session = onnxruntime.InferenceSession(str(model))
    caches = {port.name: np.zeros([1, port.shape[1], 0, port.shape[3]], np.float32) for port in session.get_inputs() if "past" in port.name}
    names, text, new = [port.name for port in session.get_outputs()], list(prompt), list(prompt)
    while len(text) < len(prompt) + TOKENS:
        places = np.arange(len(text) - len(new), len(text))[None]
        results: Dict[str, np.ndarray] = dict(zip(names, session.run(names, {
            "input_ids": np.array([new]), "attention_mask": np.ones((1, len(text)), np.int64), "position_ids": places, **caches})))
        caches = {name: results[name.replace("past_key_values", "present")] for name in caches}
        new = [int(results["logits"][0, -1].argmax())]
        text += new
    return text[len(prompt) :]


def compiled(model: pathlib.Path, tokens: int, *options: str, ranks: int = 1) -> pathlib.Path:
    """A step of so many tokens behind ROOM rows of caches; the length of the mask is the sum of both by its name."""
    path = model.with_name(f"{model.stem}-{tokens}-{ranks}.bin")
    bind = {"batch_size": BATCH, "sequence_length": tokens, "past_sequence_length": ROOM}
    return autopar.compile(model, path, bind=bind, ranks=ranks, options=[*CARRY, *options]).path


@pytest.fixture(name="models", scope="module")
def fixture_models(tmp_path_factory: pytest.TempPathFactory) -> Dict[int, pathlib.Path]:
    """By their windows."""
    folder = tmp_path_factory.mktemp("growing")
    made = {window: folder / f"window-{window}.onnx" for window in (0, 4)}
    for window, path in made.items():
        growing_decoder.save(path, window)
    return made


@pytest.mark.parametrize("window", [0, 4])
@pytest.mark.parametrize("ranks, options", [(1, ()), (2, ("--mesh", "tensor=2")), (3, ("--mesh", "data=3")), (2, ("--stages", "2"))])
def test_prompts_are_followed_by_the_tokens_of_caches_that_grow(models: Dict[int, pathlib.Path], window: int, ranks: int, options: tuple) -> None:
    expected = [follow(models[window], prompt) for prompt in PROMPTS]
    assert len({token for answer in expected for token in answer}) > 5
    step = compiled(models[window], 1, *options, ranks=ranks)
    with autopar.Generator(step) as generator:
        assert generator.generate(PROMPTS, TOKENS) == expected
        assert generator.generate(PROMPTS[1:], TOKENS) == expected[1:], "what an earlier text left in the caches is hidden"
    with autopar.Generator(step, prefill=compiled(models[window], 4)) as generator:
        assert generator.generate(PROMPTS[::-1], TOKENS) == expected[::-1]
        assert generator.generate(PROMPTS * 3, TOKENS) == expected * 3, "more than a batch"


def test_the_caches_take_text_to_their_last_row(models: Dict[int, pathlib.Path]) -> None:
    prompt = [(3 * i) % 50 for i in range(ROOM - TOKENS + 1)]
    with autopar.Generator(compiled(models[0], 1), prefill=compiled(models[0], 4)) as generator:
        assert generator.generate([prompt, [8]], TOKENS)[0] == follow(models[0], prompt)


def test_what_a_generator_cannot_count_is_refused(models: Dict[int, pathlib.Path], tmp_path: pathlib.Path) -> None:
    with pytest.raises(autopar.Error, match="takes 4 tokens at a time; where caches grow, the step takes one"):
        autopar.Generator(compiled(models[0], 4))
    bind = {"batch_size": BATCH, "sequence_length": 1, "past_sequence_length": ROOM}
    blind = autopar.compile(models[0], tmp_path / "blind.bin", bind=bind, options=CARRY, fix_inputs={"position_ids": 0}).path
    with pytest.raises(autopar.Error, match="takes no position_ids: if it counts them by its attention_mask"):
        autopar.Generator(blind)
    autopar.Generator(blind, counts_positions=True).close()
