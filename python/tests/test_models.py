# SPDX-License-Identifier: Apache-2.0
"""The model zoo: every family is valid, runs, has the published number of parameters, and means what it says.

onnxruntime is the outside truth for "runs"; parameter counts come from the papers or the published checkpoints;
meaning is checked by properties (causality, padding, dense against dispatched experts) that need no reference model.
"""

import os
import pathlib
import re
import subprocess
import sys
import time

import numpy as np
import onnx
import pytest

ort = pytest.importorskip("onnxruntime")
PYTHON_DIR = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(PYTHON_DIR))

from autopar import models  # noqa: E402

BATCH, SEQ, DECODER_SEQ, VOCAB = 2, 16, 12, 500

TEXT = dict(layers=2, hidden=64, heads=4, vocab=VOCAB)
IMAGE = dict(layers=2, hidden=64, heads=4, image=32, patch=8, classes=10)
LATENT = dict(key_value_rank=32, plain_size=16, rotary_size=8, value_size=16, inner=96, expert_inner=48)
SINKS = dict(kv_heads=2, head_size=16, window=5, inner=48, experts=16)
CONV = dict(blocks="1,1,2,1", channels=8, image=64, classes=10)

#: One small variant per family and per option that changes the graph.
TINY = {
    "gpt2": ("gpt2-124m", TEXT),
    "gpt3": ("gpt3-175b", TEXT),
    "llama3": ("llama3-8b", TEXT),
    "llama3-tied": ("llama3-1b", TEXT),
    "llama3-grouped": ("llama3-405b", dict(TEXT, heads=8, kv_heads=2)),
    "llama3-4-bits": ("llama3-8b", dict(TEXT, weight_bits=4)),
    "bert": ("bert-base", TEXT),
    "vit": ("vit-h", dict(IMAGE, patch=4)),
    "t5": ("t5-3b", dict(TEXT, head_size=8)),
    "resnet": ("resnet50", CONV),
    "resnet-folded": ("resnet50", dict(CONV, folded_bn=True)),
    "wide-resnet": ("wide-resnet-13b", dict(CONV, width_factor=4)),
    "bert-sgmoe": ("bert-sgmoe", TEXT),
    "bert-switch": ("bert-switch", TEXT),
    "vit-sgmoe": ("vit-sgmoe", IMAGE),
    "vit-switch": ("vit-switch", IMAGE),
    "mixtral": ("mixtral-8x7b", TEXT),
    "mixtral-capacity": ("mixtral-8x7b", dict(TEXT, dispatch="capacity")),
    "mixtral-gather": ("mixtral-8x7b", dict(TEXT, dispatch="gather")),
    "mixtral-dropless": ("mixtral-8x7b", dict(TEXT, dispatch="dropless")),
    "qwen3": ("qwen3-8b", dict(TEXT, heads=8, kv_heads=2, head_size=16)),
    "qwen3-tied": ("qwen3-0.6b", dict(TEXT, kv_heads=2, head_size=32)),
    "qwen3-moe": ("qwen3-30b-a3b", dict(TEXT, experts=16)),
    "deepseek": ("deepseek-v3", dict(TEXT, **LATENT, dense_layers=1, experts=16, groups=4, top_groups=2, top_k=3)),
    "moonlight": ("moonlight-16b-a3b", dict(TEXT, **LATENT, experts=8, top_k=2, dispatch="dense")),
    "gpt-oss": ("gpt-oss-120b", dict(TEXT, **SINKS)),
    "gpt-oss-dense": ("gpt-oss-20b", dict(TEXT, **SINKS, dispatch="dense")),
}

#: Published sizes. Exact where the checkpoint's count is known (gpt2, llama, bert, vit, t5, resnet50, mixtral, qwen3,
#: gpt-oss).
PUBLISHED = {
    "gpt2-124m": 124_439_808,
    "gpt2-350m": 354_823_168,
    "gpt2-774m": 774_030_080,
    "gpt2-1.5b": 1_557_611_200,
    "gpt3-1.3b": 1.3e9,
    "gpt3-2.6b": 2.65e9,  # printed as 2.7 in the GPT-3 paper and as 2.6 in Alpa's
    "gpt3-6.7b": 6.7e9,
    "gpt3-13b": 13.0e9,
    "gpt3-175b": 175.0e9,
    "llama3-1b": 1_235_814_400,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3-405b": 405_853_388_800,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "vit-b": 86_567_656,
    "vit-l": 304_326_632,
    "vit-h": 632_045_800,
    "t5-770m": 737_668_096,  # T5-Large: called 770M in the paper
    "t5-3b": 2_851_598_336,
    "t5-11b": 11_307_321_344,
    "resnet50": 25_557_032,
    "wide-resnet-0.5b": 0.5e9,
    "wide-resnet-1b": 1.0e9,
    "wide-resnet-2b": 2.0e9,
    "wide-resnet-4b": 4.0e9,
    "wide-resnet-6.8b": 6.8e9,
    "wide-resnet-13b": 12.63e9,  # named 13B; what Alpa's configuration (101 layers, 320 channels, factor 16) comes to
    # Not published as sizes: the dense model plus seven more copies of the MLP (weights, biases) and a gate without
    # bias in six blocks.
    "bert-sgmoe": 109_482_240 + 6 * (7 * (8 * 768**2 + 5 * 768) + 8 * 768),
    "bert-switch": 109_482_240 + 6 * (7 * (8 * 768**2 + 5 * 768) + 8 * 768),
    "vit-sgmoe": 86_567_656 + 6 * (7 * (8 * 768**2 + 5 * 768) + 8 * 768),
    "vit-switch": 86_567_656 + 6 * (7 * (8 * 768**2 + 5 * 768) + 8 * 768),
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_404_352,
    "kimi-k2": 1.026e12,
    "moonlight-16b-a3b": 15.96e9,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
}


def session(model):
    """An onnxruntime session for a ModelProto or a path."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model if isinstance(model, str) else model.SerializeToString(), options)


def feeds_for(running, seed=0):
    """Random inputs for every input of a session; masks keep everything."""
    stream = np.random.default_rng(seed)
    extents = {"batch": BATCH, "seq": SEQ, "decoder_seq": DECODER_SEQ}
    feeds = {}
    for given in running.get_inputs():
        shape = [extents[d] if isinstance(d, str) else d for d in given.shape]
        if given.type == "tensor(float)":
            feeds[given.name] = stream.standard_normal(shape).astype(np.float32)
        elif "mask" in given.name:
            feeds[given.name] = np.ones(shape, np.int64)
        else:
            feeds[given.name] = stream.integers(0, 2 if "type" in given.name else VOCAB, shape)
    return feeds


def run_cli(*arguments):
    """Runs the command line; returns the completed process."""
    environment = dict(os.environ, PYTHONPATH=str(PYTHON_DIR))
    command = [sys.executable, "-m", "autopar.models", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("opset", [13, 17, 23])
@pytest.mark.parametrize("case", TINY)
def test_small_variant_is_valid_and_runs(case, opset):
    name, options = TINY[case]
    model = models.build(name, opset=opset, **options)
    onnx.checker.check_model(model, full_check=True)
    names = [node.name for node in model.graph.node]
    assert all(names) and len(set(names)) == len(names)
    running = session(model)
    for given in running.get_inputs():
        assert given.shape[0] == "batch"
    outputs = running.run(None, feeds_for(running))
    extents = {"batch": BATCH, "seq": SEQ, "decoder_seq": DECODER_SEQ}
    for declared, value in zip(running.get_outputs(), outputs):
        assert value.shape == tuple(extents.get(d, d) for d in declared.shape)
        assert np.isfinite(value).all()
        assert 1e-3 < value.std() < 100


@pytest.mark.parametrize("case", TINY)
def test_fixed_dimensions_give_the_same_values(case):
    name, options = TINY[case]
    dynamic = session(models.build(name, **options))
    feeds = feeds_for(dynamic)
    lengths = {} if "pixel_values" in feeds or "input" in feeds or "decoder_input_ids" in feeds else {"seq": SEQ}
    fixed = session(models.build(name, batch=BATCH, **lengths, **options))
    assert fixed.get_inputs()[0].shape[0] == BATCH
    for left, right in zip(dynamic.run(None, feeds), fixed.run(None, feeds)):
        np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", TINY)
def test_half_precision_is_valid(case):
    name, options = TINY[case]
    for dtype, opset in (("float16", 17), ("bfloat16", 23)):
        onnx.checker.check_model(models.build(name, dtype=dtype, opset=opset, **options), full_check=True)


@pytest.mark.parametrize("name", models.names())
def test_parameter_count_is_the_published_one(name):
    assert models.parameter_count(name) == pytest.approx(PUBLISHED[name], rel=0.02)


def test_parameter_counts_that_are_known_exactly():
    assert set(PUBLISHED) == set(models.names())
    for name, count in PUBLISHED.items():
        if isinstance(count, int):
            assert models.parameter_count(name) == count, name


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_quantized_weights_are_counted_and_take_their_bits(bits):
    floats, quantized = models.describe("llama3-8b"), models.describe("llama3-8b", weight_bits=bits)
    assert quantized.parameter_count() == floats.parameter_count()
    left = sum(p.nbytes for p in quantized.parameters.values() if p.name.startswith("model.layers") and p.dtype == "uint8")
    taken = sum(p.elements for p in floats.parameters.values() if p.name.endswith("proj.weight"))
    assert left * 8 == taken * bits


def test_initializers_of_gpt2_hold_exactly_the_parameters():
    model = models.build("gpt2-124m", weights=False)
    floats = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    assert sum(int(np.prod(t.dims)) for t in floats) == 124_439_808


@pytest.mark.parametrize("case", ["gpt2", "gpt3", "llama3", "llama3-grouped", "mixtral", "qwen3", "gpt-oss-dense"])
def test_decoder_is_causal(case):
    name, options = TINY[case]
    running = session(models.build(name, **options))
    feeds = feeds_for(running)
    before = running.run(None, feeds)[0]
    feeds["input_ids"] = feeds["input_ids"].copy()
    feeds["input_ids"][:, -1] = (feeds["input_ids"][:, -1] + 1) % VOCAB
    after = running.run(None, feeds)[0]
    np.testing.assert_allclose(before[:, :-1], after[:, :-1], rtol=1e-4, atol=1e-5)
    assert np.abs(before[:, -1] - after[:, -1]).max() > 1e-3


def softmax(x):
    """Over the last axis."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def gpt_oss_by_hand(weights, ids, layers, heads, kv_heads, head_size, window, top_k):
    """The logits of one sequence as OpenAI's own model computes them (gpt_oss/torch/model.py), in float64."""

    def normed(name, x):
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weights[f"{name}.weight"]

    def linear(name, x):
        return x @ weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def turned(x):
        half, places = head_size // 2, np.arange(len(ids))[:, None]
        base = 150000.0 ** (np.arange(0, head_size, 2) / head_size)
        low, high = (half * np.log(4096 / (turns * 2 * np.pi)) / np.log(150000.0) for turns in (32, 1))
        kept = 1 - np.clip((np.arange(half) - low) / (high - low), 0, 1)
        angles = places * ((1 - kept) / (32 * base) + kept / base)
        cosine, sine = ((0.1 * np.log(32) + 1) * f(angles)[:, None] for f in (np.cos, np.sin))
        return np.concatenate([x[..., :half] * cosine - x[..., half:] * sine, x[..., half:] * cosine + x[..., :half] * sine], -1)

    x = weights["model.embed_tokens.weight"][ids]
    row, column = np.arange(len(ids))[:, None], np.arange(len(ids))
    for i in range(layers):
        at = f"model.layers.{i}"
        t = normed(f"{at}.input_layernorm", x)
        q, k, v = (linear(f"{at}.self_attn.{n}_proj", t).reshape(len(ids), -1, head_size) for n in "qkv")
        q, k, v = turned(q), np.repeat(turned(k), heads // kv_heads, 1), np.repeat(v, heads // kv_heads, 1)
        scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(head_size)
        hidden = (column > row) | ((column <= row - window) if i % 2 == 0 else False)
        scores = np.where(hidden, -np.inf, scores)
        sinks = np.broadcast_to(weights[f"{at}.self_attn.sinks"][:, None, None], (heads, len(ids), 1))
        shares = softmax(np.concatenate([scores, sinks], -1))[..., :-1]
        x = x + linear(f"{at}.self_attn.o_proj", np.einsum("hqk,khd->qhd", shares, v).reshape(len(ids), -1))
        t = normed(f"{at}.post_attention_layernorm", x)
        logits = linear(f"{at}.mlp.router", t)
        mixed = np.zeros_like(x)
        for token, chosen in enumerate(np.argsort(-logits, -1)[:, :top_k]):
            for share, e in zip(softmax(logits[token, chosen]), chosen):
                expert = {n: [weights[f"{at}.mlp.experts.{n}_proj.{part}"][e] for part in ("weight", "bias")] for n in ("gate_up", "down")}
                both = (t[token] @ expert["gate_up"][0] + expert["gate_up"][1])[0]
                gate, up = np.minimum(both[::2], 7), np.clip(both[1::2], -7, 7)
                inner = gate / (1 + np.exp(-1.702 * gate)) * (up + 1)
                mixed[token] += share * (inner @ expert["down"][0] + expert["down"][1])[0]
        x = x + mixed
    return normed("model.norm", x) @ weights["lm_head.weight"]


def test_gpt_oss_computes_what_the_published_model_does():
    """Scaled up so that activations meet their limits."""
    name, options = TINY["gpt-oss-dense"]
    model = models.build(name, **options)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    for tensor in model.graph.initializer:
        if "gate_up_proj.weight" in tensor.name:
            weights[tensor.name] = weights[tensor.name] * 20
            tensor.CopyFrom(onnx.numpy_helper.from_array(weights[tensor.name], tensor.name))
    ids = np.random.default_rng(0).integers(0, VOCAB, SEQ)
    (logits,) = session(model).run(None, {"input_ids": ids[None]})
    sizes = {key: options[key] for key in ("layers", "heads", "kv_heads", "head_size", "window")}
    expected = gpt_oss_by_hand({key: value.astype(np.float64) for key, value in weights.items()}, ids, top_k=4, **sizes)
    np.testing.assert_allclose(logits[0], expected, rtol=2e-3, atol=2e-4)


def test_t5_decoder_is_causal_and_sees_the_encoder():
    name, options = TINY["t5"]
    running = session(models.build(name, **options))
    feeds = feeds_for(running)
    before = running.run(None, feeds)[0]
    changed = dict(feeds, decoder_input_ids=feeds["decoder_input_ids"].copy())
    changed["decoder_input_ids"][:, -1] += 1
    after = running.run(None, changed)[0]
    np.testing.assert_allclose(before[:, :-1], after[:, :-1], rtol=1e-4, atol=1e-5)
    assert np.abs(before[:, -1] - after[:, -1]).max() > 1e-3
    other = running.run(None, dict(feeds, input_ids=feeds["input_ids"][:, ::-1].copy()))[0]
    assert np.abs(before - other).max() > 1e-3


@pytest.mark.parametrize("case", ["bert", "t5"])
def test_padding_is_ignored(case):
    name, options = TINY[case]
    running = session(models.build(name, **options))
    feeds = feeds_for(running)
    feeds["attention_mask"][:, SEQ - 4 :] = 0
    before = running.run(None, feeds)[0]
    feeds["input_ids"] = feeds["input_ids"].copy()
    feeds["input_ids"][:, SEQ - 4 :] = (feeds["input_ids"][:, SEQ - 4 :] + 7) % VOCAB
    after = running.run(None, feeds)[0]
    kept = slice(0, SEQ - 4) if case == "bert" else slice(None)
    np.testing.assert_allclose(before[:, kept], after[:, kept], rtol=1e-4, atol=1e-5)


def test_positions_matter_in_rotary_attention():
    running = session(models.build("llama3-8b", **dict(TEXT, layers=1)))
    ids = np.array([[1, 2, 3, 4], [2, 1, 3, 4]])  # the last token sees the same set in another order
    logits = running.run(None, {"input_ids": ids})[0]
    assert np.abs(logits[0, -1] - logits[1, -1]).max() > 1e-5


def test_dispatched_experts_equal_dense_ones_when_nothing_overflows():
    dense = session(models.build("mixtral-8x7b", **TEXT))
    roomy = session(models.build("mixtral-8x7b", dispatch="capacity", capacity_factor=4.0, **TEXT))
    tight = session(models.build("mixtral-8x7b", dispatch="capacity", capacity_factor=0.25, **TEXT))
    feeds = feeds_for(dense)
    expected = dense.run(None, feeds)[0]
    np.testing.assert_allclose(roomy.run(None, feeds)[0], expected, rtol=1e-3, atol=1e-5)
    assert np.abs(tight.run(None, feeds)[0] - expected).max() > 1e-3


@pytest.mark.parametrize("name, options", [("mixtral-8x7b", TEXT), ("gpt-oss-20b", dict(TEXT, **SINKS))])
def test_looked_up_experts_equal_dense_ones(name, options):
    dense, dropless = (session(models.build(name, dispatch=form, **options)) for form in ("dense", "dropless"))
    feeds = feeds_for(dense)
    np.testing.assert_allclose(dropless.run(None, feeds)[0], dense.run(None, feeds)[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("top_k", [1, 2, 3])
@pytest.mark.parametrize("capacity_factor", [0.25, 1.0, 4.0])
def test_gathered_experts_equal_dispatched_ones(top_k, capacity_factor):
    options = dict(TEXT, top_k=top_k, capacity_factor=capacity_factor)
    dispatched, gathered = (session(models.build("mixtral-8x7b", dispatch=form, **options)) for form in ("capacity", "gather"))
    feeds = feeds_for(dispatched)
    np.testing.assert_allclose(gathered.run(None, feeds)[0], dispatched.run(None, feeds)[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("case", ["bert-sgmoe", "bert-switch", "mixtral"])
def test_experts_are_batched_weights(case):
    name, options = TINY[case]
    model = models.build(name, weights=False, **options)
    used = {i for node in model.graph.node if node.op_type == "MatMul" for i in node.input}
    stacked = [t for t in model.graph.initializer if len(t.dims) == 3 and t.dims[0] == 8 and t.name in used]
    assert len(stacked) >= 2


def test_weights_follow_the_seed():
    one, same, other = (models.build("gpt2-124m", seed=s, **TEXT) for s in (1, 1, 2))
    assert one.SerializeToString() == same.SerializeToString()
    assert one.SerializeToString() != other.SerializeToString()


def test_saved_file_equals_the_built_model(tmp_path):
    path = tmp_path / "m.onnx"
    assert models.save("gpt2-124m", str(path), seed=3, **TEXT) == [str(path)]
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert onnx.load(path) == models.build("gpt2-124m", seed=3, **TEXT)


def test_external_data_holds_the_same_weights(tmp_path):
    path = tmp_path / "m.onnx"
    models.save("gpt2-124m", str(path), external_data=True, **TEXT)
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "m.onnx.data"]
    onnx.checker.check_model(str(path))
    inline, external = session(models.build("gpt2-124m", **TEXT)), session(str(path))
    feeds = feeds_for(inline)
    np.testing.assert_array_equal(inline.run(None, feeds)[0], external.run(None, feeds)[0])


def test_absent_weights_follow_the_convention(tmp_path):
    path = tmp_path / "m.onnx"
    models.save("gpt2-124m", str(path), weights=False, **TEXT)
    assert os.listdir(tmp_path) == ["m.onnx"]
    absent = {t.name: t for t in onnx.load(path, load_external_data=False).graph.initializer}
    for tensor in models.build("gpt2-124m", **TEXT).graph.initializer:
        twin = absent[tensor.name]
        assert (twin.dims, twin.data_type) == (tensor.dims, tensor.data_type)
        if tensor.name == "transformer.h.0.attn.bias":  # the causal mask is no weight
            assert twin == tensor
        else:
            assert twin.data_location == onnx.TensorProto.EXTERNAL and not twin.raw_data
            assert [(e.key, e.value) for e in twin.external_data] == [("location", "gpt2-124m.weights-absent")]


def test_largest_models_without_weights_take_seconds(tmp_path):
    start = time.monotonic()
    done = run_cli("gpt3-175b", "--no-weights", "-o", tmp_path / "m.onnx")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - start < 60, "with weights it would be minutes"
    assert (tmp_path / "m.onnx").stat().st_size < 20 << 20
    for name in models.names():
        models.save(name, str(tmp_path / "m.onnx"), weights=False)


def test_command_line_writes_a_model(tmp_path):
    path = tmp_path / "tiny.onnx"
    done = run_cli("gpt2-124m", "--layers", 2, "--hidden", 64, "--heads", 4, "--vocab", VOCAB, "-o", path)
    assert done.returncode == 0, done.stderr
    assert f"wrote {path}" in done.stdout
    running = session(str(path))
    assert np.isfinite(running.run(None, feeds_for(running))[0]).all()


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["gpt2-125m", "-o", "m.onnx"], 2, "unknown model 'gpt2-125m', did you mean: gpt2-124m"),
        (["gpt2-124m"], 2, "add -o FILE"),
        (["resnet50", "--heads", "4", "-o", "m.onnx"], 2, "unknown option 'heads' of model 'resnet50'"),
        (["gpt2-124m", "--heads", "5", "-o", "m.onnx"], 2, "hidden=768 is not divisible by heads=5"),
        (["gpt2-124m", "--layers", "0", "-o", "m.onnx"], 2, "'layers' of model 'gpt2-124m' must be above 0"),
        (["gpt2-124m", "--opset", "9", "-o", "m.onnx"], 2, "operator set 9 is not available"),
        (["gpt2-124m", "--seq", "4096", "-o", "m.onnx"], 2, "seq=4096 is longer than positions=1024"),
        (["vit-b", "--seq", "5", "-o", "m.onnx"], 2, "has no sequence dimension"),
        (["mixtral-8x7b", "--top-k", "9", "-o", "m.onnx"], 2, "between 1 and experts=8"),
        (["resnet50", "--blocks", "3,x", "-o", "m.onnx"], 2, "must be positive numbers with commas"),
        (["bert-base", "--layers", "1", "-o", "missing/m.onnx"], 74, "cannot write 'missing/m.onnx"),
    ],
)
def test_bad_requests_are_explained(arguments, code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run_cli(*arguments)
    assert done.returncode == code
    assert message in done.stderr and "Traceback" not in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name, options, why", [
    ("llama3-8b", {"tied": 1}, "option 'tied' of model 'llama3-8b' must be true or false, got 1"),
    ("gpt2-124m", {"layers": True}, "option 'layers' of model 'gpt2-124m' must be a whole number >= 0, got True"),
    ("gpt2-124m", {"layers": -1}, "must be a whole number >= 0, got -1"),
    ("llama3-8b", {"epsilon": float("inf")}, "option 'epsilon' of model 'llama3-8b' must be a number >= 0, got inf"),
    ("resnet50", {"blocks": 3}, "option 'blocks' of model 'resnet50' must be text, got 3"),
    ("mixtral-8x7b", {"dispatch": "none"}, "option 'dispatch' of model 'mixtral-8x7b' must be one of"),
])
def test_options_of_another_kind_are_refused(tmp_path, name, options, why):
    with pytest.raises(models.ModelError, match=re.escape(why)):
        models.save(name, tmp_path / "m.onnx", weights=False, **options)


def test_list_shows_every_model():
    done = run_cli("--list")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == models.names()
