# SPDX-License-Identifier: Apache-2.0
"""Models that onnxruntime's own tools wrote compute, train and generate as those that they were made of."""

import collections
import pathlib
from typing import Callable, Dict, List, Set, Tuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import autopar
import small_gpt2
from autopar import models

BATCH, SEQ, VOCAB = 4, 16, 101
SMALL = {"layers": 2, "hidden": 64, "heads": 4, "vocab": VOCAB, "positions": 128}
#: Other tests have what these make.
PRODUCTS = ["MatMulScaleFusion", "MatmulTransposeFusion", "GemmActivationFusion"]


def save(name: str, folder: pathlib.Path, **options: object) -> pathlib.Path:
    models.save(name, folder / f"{name}.onnx", **SMALL, **options)
    return folder / f"{name}.onnx"


def by_transformer_optimizer(path: pathlib.Path, kind: str) -> pathlib.Path:
    from onnxruntime.transformers import fusion_options, optimizer

    options = fusion_options.FusionOptions(kind)
    options.enable_shape_inference = False  # which takes another package
    made = optimizer.optimize_model(str(path), kind, SMALL["heads"], SMALL["hidden"], options, opt_level=0)
    made.save_model_to_file(str(path.with_suffix(".optimized.onnx")))
    return path.with_suffix(".optimized.onnx")


def by_session(path: pathlib.Path, kind: str) -> pathlib.Path:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(path.with_suffix(".extended.onnx"))
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"], disabled_optimizers=PRODUCTS)
    return path.with_suffix(".extended.onnx")


def contrib_operators(path: pathlib.Path) -> Set[str]:
    return {node.op_type for node in onnx.load(path).graph.node if node.domain == "com.microsoft" or node.op_type.startswith("Simplified")}


def by_onnxruntime(model: object, inputs: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model if isinstance(model, bytes) else str(model), providers=["CPUExecutionProvider"])
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))


CASES = [("gpt2-124m", "gpt2", by_transformer_optimizer, {"FastGelu", "SkipLayerNormalization"}), ("gpt2-124m", "gpt2", by_session, {"FastGelu"}),
         ("bert-base", "bert", by_transformer_optimizer, {"Attention", "BiasGelu", "EmbedLayerNormalization", "SkipLayerNormalization"}),
         ("bert-base", "bert", by_session, {"BiasGelu"}), ("llama3-1b", "gpt2", by_transformer_optimizer, {"SimplifiedLayerNormalization"}),
         ("llama3-1b", "gpt2", by_session, {"SimplifiedLayerNormalization", "QuickGelu"})]


@pytest.mark.parametrize("name, kind, optimize, operators", CASES, ids=[f"{name}-{optimize.__name__}" for name, _, optimize, _ in CASES])
def test_an_optimized_model_computes_and_trains_as_the_original(name: str, kind: str, optimize: Callable[[pathlib.Path, str], pathlib.Path],
                                                                operators: Set[str], tmp_path: pathlib.Path) -> None:
    path = save(name, tmp_path)
    optimized = optimize(path, kind)
    assert contrib_operators(optimized) == operators
    random = np.random.default_rng(0)
    inputs = {"input_ids": random.integers(0, VOCAB, (BATCH, SEQ))}
    if kind == "bert":
        inputs.update(attention_mask=np.ones((BATCH, SEQ), np.int64), token_type_ids=random.integers(0, 2, (BATCH, SEQ)))
        inputs["attention_mask"][0, 9:] = 0
    bind = {"batch": BATCH, "seq": SEQ}
    with autopar.Session(autopar.compile(optimized, tmp_path / "run.bin", bind=bind, ranks=2)) as session:
        actual = session.run(inputs)
    for output, expected in by_onnxruntime(path, inputs).items():
        np.testing.assert_allclose(actual[output], expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())

    def losses(model: pathlib.Path) -> List[float]:
        loss = small_gpt2.LOSS if kind != "bert" else "mean_squared_error(pooler_output, labels)"
        labels = random_labels if kind != "bert" else targets
        train = autopar.Train(loss, autopar.AdamW(lr=1e-3), clip_norm=1.0)
        with autopar.Session(autopar.compile(model, tmp_path / "train.bin", bind=bind, ranks=2, train=train, options=["--quiet"])) as session:
            return [float(session.run({**inputs, "labels": labels})["loss"]) for _ in range(5)]

    random_labels, targets = random.integers(0, VOCAB, (BATCH, SEQ)), random.standard_normal((BATCH, SMALL["hidden"])).astype(np.float32)
    np.testing.assert_allclose(losses(optimized), losses(path), rtol=2e-5)


# A decoder as onnxruntime-genai's builder writes it.
HEADS, FEW, SIZE, HIDDEN, ROOM, LAYERS = 4, 2, 16, 32, 24, 2
PROMPTS = [[5, 9, 2], [7], list(range(1, 18))]


EXPERTS, INNER, BLOCK = 4, 48, 16


def decoder(positions: bool, sparse: bool = False) -> onnx.ModelProto:
    """Past and total length are dimensions; what of the caches is filled, the attention mask says. `sparse`: as gpt-oss with
    weights of 4 bits, sinks and in every second layer a window."""
    random, initializers, nodes = np.random.default_rng(3), [], []

    def weight(name: str, *shape: int, scale: float = 0.3) -> str:
        initializers.append(onnx.numpy_helper.from_array((scale * random.standard_normal(shape)).astype(np.float32), name))
        return name

    def constant(name: str, array: np.ndarray) -> str:
        initializers.append(onnx.numpy_helper.from_array(array, name))
        return name

    def node(op: str, inputs: List[str], outputs: List[str], domain: str = "", **attributes: object) -> str:
        nodes.append(helper.make_node(op, inputs, outputs, outputs[0], domain=domain, **attributes))
        return outputs[0]

    def skip(x: str, y: str, name: str) -> Tuple[str, str]:
        """The sum, and its norm."""
        nodes.append(helper.make_node("SkipSimplifiedLayerNormalization", [x, y, weight(name, HIDDEN)], [f"{name}ed", "", "", f"{name}.sum"],
                                      domain="com.microsoft"))
        return f"{name}.sum", f"{name}ed"

    def packed(name: str, rows: int, columns: int) -> List[str]:
        """A layer of all experts: bytes, scales, bias."""
        constant(f"{name}.qweight", random.integers(0, 256, (EXPERTS, rows, columns // 2), np.uint8))
        constant(f"{name}.scales", random.uniform(0.01, 0.03, (EXPERTS, rows, columns // BLOCK)).astype(np.float32))
        return [f"{name}.qweight", f"{name}.scales", weight(f"{name}.bias", EXPERTS, rows)]

    def experts(layer: int, x: str) -> str:
        scores = node("MatMul", [x, weight(f"{layer}.router", HIDDEN, EXPERTS)], [f"{layer}.scored"])
        scores = node("Add", [scores, weight(f"{layer}.router.bias", EXPERTS)], [f"{layer}.biased"])
        scores = node("Reshape", [scores, constant(f"{layer}.rows", np.array([-1, EXPERTS]))], [f"{layer}.scores"])
        layers = [*packed(f"{layer}.gate_up", 2 * INNER, HIDDEN), *packed(f"{layer}.down", HIDDEN, INNER)]
        return node("QMoE", [x, scores, *layers, *[""] * 6], [f"{layer}.mixed"], "com.microsoft", activation_alpha=1.702, activation_beta=1.0,
                    activation_type="swiglu", block_size=BLOCK, expert_weight_bits=4, k=2, normalize_routing_weights=1, swiglu_fusion=1,
                    swiglu_limit=7.0, use_sparse_mixer=0)

    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(SIZE // 2) / (SIZE // 2)))
    cosine, sine = (constant(name, turn(angles).astype(np.float32)) for name, turn in (("cos_cache", np.cos), ("sin_cache", np.sin)))
    one = constant("one", np.array([1], np.int64))
    last = node("Sub", [node("ReduceSum", ["attention_mask", one], ["filled"], keepdims=0), one], ["last"])
    node("Cast", [last], ["seqlens_k"], to=6)
    node("Gather", [node("Shape", ["attention_mask"], ["shape"]), constant("at", np.array(1))], ["total"])
    node("Cast", ["total"], ["total_sequence_length"], to=6)
    x = node("Gather", [weight("embed", VOCAB, HIDDEN), "input_ids"], ["embedded"])
    y = node("SimplifiedLayerNormalization", [x, weight("norm", HIDDEN)], ["normed"])
    for layer in range(LAYERS):
        past, present = ([f"{what}.{layer}.{part}" for part in ("key", "value")] for what in ("past_key_values", "present"))
        qkv = node("MatMul", [y, weight(f"{layer}.qkv", HIDDEN, (HEADS + 2 * FEW) * SIZE)], [f"{layer}.projected"])
        at = ["position_ids" if positions else "", "", weight(f"{layer}.sinks", HEADS)] if sparse else ["position_ids"] if positions else []
        attended = node("GroupQueryAttention", [qkv, "", "", *past, "seqlens_k", "total_sequence_length", cosine, sine, *at],
                        [f"{layer}.attended", *present], "com.microsoft", num_heads=HEADS, kv_num_heads=FEW, do_rotary=1,
                        local_window_size=5 if sparse and layer % 2 == 0 else -1)
        y = node("MatMul", [attended, weight(f"{layer}.out", HEADS * SIZE, HIDDEN)], [f"{layer}.output"])
        x, y = skip(x, y, f"{layer}.norm")
        if sparse:
            x, y = skip(x, experts(layer, y), f"{layer}.norm2")
    node("MatMul", [y, weight("head", HIDDEN, VOCAB)], ["logits"])
    tokens = ["batch", "seq"]
    given = {"input_ids": tokens, "attention_mask": ["batch", "total"], **({"position_ids": tokens} if positions else {})}
    inputs = [helper.make_tensor_value_info(name, 7, shape) for name, shape in given.items()]
    caches = {f"{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")}
    inputs += [helper.make_tensor_value_info(f"past_key_values.{name}", 1, ["batch", FEW, "past", SIZE]) for name in sorted(caches)]
    outputs = [helper.make_tensor_value_info("logits", 1, [*tokens, VOCAB])]
    outputs += [helper.make_tensor_value_info(f"present.{name}", 1, ["batch", FEW, "total", SIZE]) for name in sorted(caches)]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])


def whole(prompt: List[int], batch: int, past: int, positions: bool) -> Dict[str, np.ndarray]:
    """A prompt behind empty caches of `past` rows."""
    inputs = {"input_ids": np.array([prompt] * batch), "attention_mask": np.ones((batch, max(len(prompt), past)), np.int64)}
    if positions:
        inputs["position_ids"] = np.array([range(len(prompt))] * batch)
    return {**inputs, **{f"past_key_values.{layer}.{part}": np.zeros((batch, FEW, past, SIZE), np.float32)
                         for layer in range(LAYERS) for part in ("key", "value")}}


def follow(model: onnx.ModelProto, prompt: List[int], tokens: int, positions: bool) -> List[int]:
    """The most likely tokens by onnxruntime, from the whole text each time."""
    session, text = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]), list(prompt)
    for _ in range(tokens):
        text.append(int(session.run(["logits"], whole(text, 1, 0, positions))[0][0, -1].argmax()))
    return text[len(prompt) :]


def compile_step(model: onnx.ModelProto, artifact: pathlib.Path, tokens: int, *options: str, total: int = ROOM, ranks: int = 1) -> autopar.Compiled:
    return autopar.compile(model, artifact, ranks=ranks, bind={"batch": len(PROMPTS), "seq": tokens, "past": ROOM, "total": total},
                           options=["--quiet", "--carry", "present.*=past_key_values.*", *options])


@pytest.mark.parametrize("positions, sparse", [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("ranks, options", [(1, ()), (2, ("--mesh", "tensor=2")), (3, ("--mesh", "data=3")), (2, ("--stages", "2"))])
def test_a_decoder_generates_in_place_what_onnxruntime_does(positions: bool, sparse: bool, ranks: int, options: tuple, tmp_path: pathlib.Path) -> None:
    model = decoder(positions, sparse)
    expected = [follow(model, prompt, 8, positions) for prompt in PROMPTS]
    assert len({token for answer in expected for token in answer}) > 8
    step = compile_step(model, tmp_path / "step.bin", 1, *options, ranks=ranks)
    with autopar.Generator(step) as generator:
        assert generator.room == ROOM
        assert generator.generate(PROMPTS, 8) == expected
        assert generator.generate(PROMPTS[2:], 3) == [expected[2][:3]], "the caches of before are forgotten"
    # The prompt of 17 tokens ends within two steps of the end of the caches.
    prefill = compile_step(model, tmp_path / "prefill.bin", 7)
    with autopar.Generator(step, prefill) as generator:
        assert generator.generate(PROMPTS, 8) == expected


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_step_that_lengthens_its_caches_is_onnxruntimes(sparse: bool, ranks: int, tmp_path: pathlib.Path) -> None:
    model, random = decoder(False, sparse), np.random.default_rng(4)
    inputs = whole([3], 2, 7, False)
    inputs["attention_mask"] = np.ones((2, 8), np.int64)
    inputs.update({name: random.standard_normal(array.shape).astype(np.float32) for name, array in inputs.items() if name.startswith("past")})
    with autopar.Session(autopar.compile(model, tmp_path / "step.bin", ranks=ranks, bind={"batch": 2, "seq": 1, "past": 7, "total": 8})) as session:
        actual = session.run(inputs)
    for name, expected in by_onnxruntime(model.SerializeToString(), inputs).items():
        np.testing.assert_allclose(actual[name], expected, rtol=1e-4, atol=1e-5)


def test_caches_that_do_not_fit_the_mask_are_refused(tmp_path: pathlib.Path) -> None:
    model = decoder(False)
    with pytest.raises(autopar.Error, match="is 30, expected what a past of 24 and 1 tokens make together"):
        compile_step(model, tmp_path / "long.bin", 1, total=30)
    with pytest.raises(autopar.Error, match="expected an attention_mask as long as the caches, 24, got 20: bind past and total length"):
        autopar.Generator(compile_step(model, tmp_path / "short.bin", 1, total=20))


def test_attention_becomes_one_operation(tmp_path: pathlib.Path) -> None:
    """Whatever its masks are; a triangle is told by its kind, other masks are a bias."""
    b, s, h, d = 2, 4, 2, 16
    x, k = [b, s, h * d], [b, h, 6, d]
    form, grouped = {"num_heads": h}, {"num_heads": 4, "kv_num_heads": 2}
    few, caches = [b, s, 2 * d], [[b, 2, 9, d]] * 2
    cases = [  # operator, shapes of inputs (integers: masks), attributes, whether it is causal
        ("MultiHeadAttention", [x, x, x], form, False), ("MultiHeadAttention", [x, x, x], {**form, "unidirectional": 1}, True),
        ("MultiHeadAttention", [x, x, x, [], (b, s), [1, h, s, s]], form, False), ("MultiHeadAttention", [x, k, k], form, False),
        ("Attention", [x, [h * d, 96], [96], (b, s)], form, False), ("Attention", [x, [h * d, 96], [96], (b,)], {**form, "unidirectional": 1}, True),
        ("Attention", [x, [h * d, 96], [96], [], [2, b, h, 3, d]], {**form, "unidirectional": 1}, True),
        ("GroupQueryAttention", [[b, s, 4 * d], few, few, [], [], (b,), ()], grouped, True),
        ("GroupQueryAttention", [[b, s, 4 * d], few, few, *caches, (b,), ()], grouped, False)]
    nodes, inputs, outputs = [], [], []
    for n, (op, shapes, attributes, _) in enumerate(cases):
        names = ["" if shape == [] else f"x{n}.{i}" for i, shape in enumerate(shapes)]
        inputs += [helper.make_tensor_value_info(name, 6 if isinstance(shape, tuple) else 1, shape) for name, shape in zip(names, shapes) if name]
        results = [f"y{n}", f"k{n}", f"v{n}"] if op == "GroupQueryAttention" else [f"y{n}", f"k{n}"] if [] in shapes[:4] and op == "Attention" else [f"y{n}"]
        outputs += [helper.make_empty_tensor_value_info(name) for name in results]
        nodes.append(helper.make_node(op, names, results, f"n{n}", domain="com.microsoft", **attributes))
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), ir_version=10,
                              opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    autopar.compile(model, tmp_path / "c.bin", options=["--emit-mlir", str(tmp_path / "ir")])
    lines = [line for line in (tmp_path / "ir" / "02-prepare.mlir").read_text().splitlines() if "= autopar.attention " in line]
    told = {line.split('autopar.id = "')[1].split('"')[0]: " causal" in line for line in lines}
    assert told == {f"n{n}": causal for n, (_, _, _, causal) in enumerate(cases)}
    assert collections.Counter(" bias " in line for line in lines) == {True: 4, False: 5}
