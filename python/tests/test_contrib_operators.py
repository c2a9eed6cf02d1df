# SPDX-License-Identifier: Apache-2.0
"""Operators of onnxruntime's own (domain com.microsoft), case by case against onnxruntime: compiled for two ranks with a
random plan. The cases of one operator are nodes of one model."""

import pathlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import autopar

Arrays = List[np.ndarray]
RANDOM = np.random.default_rng(0)
B, S, H, D, C = 2, 4, 2, 8, 16  # batch, tokens, heads, channels of a head and of all


class Known(NamedTuple):
    """An input that is an initializer."""

    array: np.ndarray


Given = Union[np.ndarray, Known, None]


class Case(NamedTuple):
    """A node; `instead` gives what it yields where onnxruntime's CPU lacks the operator or the form."""

    op: str
    inputs: Sequence[Given]
    attributes: Dict[str, Any] = {}
    outputs: str = "y"  # letters, "." for one that is not asked for
    instead: Optional[Callable[[], Arrays]] = None
    defined: Any = ...  # where the first output has a meaning
    held: Any = ...  # where the others have one
    domain: str = "com.microsoft"


def f(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def i(*values: Any) -> np.ndarray:
    return np.array(values, np.int32)


def model_of(cases: Sequence[Case]) -> onnx.ModelProto:
    """Inputs xN.I and outputs yN.I of case N."""
    nodes, inputs, initializers, outputs = [], [], [], []
    for n, case in enumerate(cases):
        names = []
        for k, given in enumerate(case.inputs):
            names.append("" if given is None else f"x{n}.{k}")
            if isinstance(given, Known):
                initializers.append(onnx.numpy_helper.from_array(given.array, names[-1]))
            elif given is not None:
                inputs.append(helper.make_tensor_value_info(names[-1], helper.np_dtype_to_tensor_dtype(given.dtype), given.shape))
        results = ["" if letter == "." else f"y{n}.{k}" for k, letter in enumerate(case.outputs)]
        outputs += [helper.make_empty_tensor_value_info(name) for name in results if name]
        nodes.append(helper.make_node(case.op, names, results, f"n{n}", domain=case.domain, **case.attributes))
    graph = helper.make_graph(nodes, "cases", inputs, outputs, initializers)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])


def fed(cases: Sequence[Case]) -> Dict[str, np.ndarray]:
    return {f"x{n}.{k}": given for n, case in enumerate(cases) for k, given in enumerate(case.inputs) if isinstance(given, np.ndarray)}


def by_onnxruntime(op: str, inputs: Sequence[Given], attributes: Dict[str, Any] = {}, outputs: str = "y", domain: str = "com.microsoft") -> Arrays:
    case = Case(op, inputs, attributes, outputs, domain=domain)
    session = onnxruntime.InferenceSession(model_of([case]).SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, fed([case]))


def normalization() -> List[Case]:
    x, skip, scale, shift, bias = f(B, S, C), f(B, S, C), f(C), f(C), f(C)
    image, channels, shifts = f(2, 3, 4, 6), f(6), f(6)
    first = image.transpose(0, 3, 1, 2)

    def group_norm(x: np.ndarray, silu: bool) -> np.ndarray:
        y, = by_onnxruntime("GroupNormalization", [x, channels, shifts], {"num_groups": 2, "epsilon": 1e-3}, domain="")
        return y / (1 + np.exp(-y)) if silu else y

    def last(x: np.ndarray) -> np.ndarray:
        return x.transpose(0, 2, 3, 1)

    def form(activation: int, channels_last: int) -> Dict[str, Any]:
        return {"groups": 2, "epsilon": 1e-3, "activation": activation, "channels_last": channels_last}

    ids, segments, mask = i([1, 2, 0, 4], [3, 3, 1, 0]), i([0, 0, 1, 1], [1, 0, 0, 1]), i([1, 1, 1, 0], [1, 1, 0, 0])
    tables, flat = [f(5, C), f(6, C), f(2, C)], {"epsilon": 1e-2}
    skips, residual = f(2, 6), f(2, 3, 4, 6)
    return [
        Case("SimplifiedLayerNormalization", [x, scale], flat, "yd", domain=""),
        Case("SimplifiedLayerNormalization", [x, scale], flat, instead=lambda: by_onnxruntime("SimplifiedLayerNormalization", [x, scale], flat, domain="")),
        Case("SimplifiedLayerNormalization", [x, f(S, C)], {"axis": 1}, domain=""),
        Case("SkipLayerNormalization", [x, skip, scale]),
        Case("SkipLayerNormalization", [x, f(S, C), scale, shift, bias], flat, "y..s"),
        Case("SkipLayerNormalization", [x, f(1, S, C), scale, None, bias], flat, "y..s"),
        Case("SkipSimplifiedLayerNormalization", [x, skip, scale]),
        Case("SkipSimplifiedLayerNormalization", [x, skip, scale, bias], flat, "y..s"),
        Case("SkipSimplifiedLayerNormalization", [x[0], skip[0], scale], flat, "y..s"),
        # Statistics, which onnxruntime leaves empty.
        Case("SkipLayerNormalization", [x, skip, scale, shift], flat, "ymd",
             instead=lambda: by_onnxruntime("LayerNormalization", [x + skip, scale, shift], flat, "ymd", "")),
        Case("SkipSimplifiedLayerNormalization", [x, skip, scale], flat, "y.d",
             instead=lambda: by_onnxruntime("SimplifiedLayerNormalization", [x + skip, scale], flat, "yd", "")),
        Case("EmbedLayerNormalization", [ids, segments, *tables, scale, shift, mask], flat, "yms"),
        Case("EmbedLayerNormalization", [ids, None, *tables[:2], None, scale, shift, None, ids], flat, "yms"),
        Case("EmbedLayerNormalization", [ids, segments, *tables, scale, shift], {}, "ym"),
        Case("GroupNorm", [image, channels, shifts], form(0, 1), instead=lambda: [last(group_norm(first, False))]),
        Case("GroupNorm", [first, channels, shifts], form(1, 0), instead=lambda: [group_norm(first, True)]),
        Case("SkipGroupNorm", [image, channels, shifts, residual, bias[:6]], form(1, 1), "ys",
             instead=lambda: [last(group_norm((image + residual + bias[:6]).transpose(0, 3, 1, 2), True)), image + residual + bias[:6]]),
        Case("SkipGroupNorm", [image, channels, shifts, skips], form(0, 1),
             instead=lambda: [last(group_norm(first + skips[:, :, None, None], False))]),
    ]


def activation() -> List[Case]:
    x, bias, skip, scores = f(B, S, C), f(C), f(B, S, C), f(B, H, S, S)
    inner, outer = f(B, 1, 1, S), f(S, S)

    def softmax(x: np.ndarray, axis: int) -> np.ndarray:
        return by_onnxruntime("Softmax", [x], {"axis": axis}, domain="")[0]

    def gated() -> Arrays:
        y = x + bias
        return [y[..., :8] * by_onnxruntime("Gelu", [y[..., 8:]])[0]]

    return [
        Case("Gelu", [x]), Case("FastGelu", [x]), Case("FastGelu", [x, bias]), Case("BiasGelu", [x, bias]),
        Case("QuickGelu", [x]), Case("QuickGelu", [x], {"alpha": 1.0}), Case("QuickGelu", [x], {"alpha": 1.5}),
        Case("BiasAdd", [x, bias, skip], instead=lambda: [x + bias + skip]),
        Case("BiasSplitGelu", [x, bias], instead=gated),
        Case("BiasSoftmax", [scores, inner], {"axis": 3, "is_inner_broadcast": 1}, instead=lambda: [softmax(scores + inner, 3)]),
        Case("BiasSoftmax", [scores, outer], {"axis": 2, "is_inner_broadcast": 0},
             instead=lambda: [softmax((scores + outer).reshape(B, H, -1), 2).reshape(scores.shape)]),
    ]


def rotary_embedding() -> List[Case]:
    x, heads, cosine, sine, half = f(B, S, C), f(B, H, S, D), f(10, 4), f(10, 4), [f(10, 2), f(10, 2)]
    positions, part = np.array([[0, 1, 2, 3], [3, 5, 4, 9]]), {"num_heads": H, "rotary_embedding_dim": 4}
    angles, states = f(B, S, D), [f(B, H, S, D).astype(np.float16) for _ in range(4)]

    def gemma() -> Arrays:
        cos, sin = (turn(angles)[:, None].astype(np.float16) for turn in (np.cos, np.sin))
        return [states[0] * cos + states[1] * sin, states[2] * cos + states[3] * sin]

    return [
        Case("RotaryEmbedding", [x, positions, cosine, sine]),
        Case("RotaryEmbedding", [x, positions, cosine, sine], {"interleaved": 1}),
        Case("RotaryEmbedding", [x, np.array([5]), cosine, sine]),
        Case("RotaryEmbedding", [heads, np.array([2]), cosine, sine], {"interleaved": 1}),
        Case("RotaryEmbedding", [x, positions, *half], part),
        Case("RotaryEmbedding", [heads, positions, *half], {**part, "interleaved": 1}),
        Case("GemmaRotaryEmbedding", [angles, *states], {}, "qk", instead=gemma),
    ]


MASKS = [i(3, 4), i(3, 4, 0, 1), i(2, 4, 0, 4, 8, 0, 3, 7), i([1, 1, 1, 0], [0, 1, 0, 1]), np.array(RANDOM.integers(0, 2, (B, S, S)), np.int32),
         i([0, 0, 0, 0], [1, 1, 0, 0])]  # the last hides a whole sample
FILTER = {"mask_filter_value": -100.0}  # of the default, -10000, scores that are all hidden keep three digits


def multi_head_attention() -> List[Case]:
    q, k, v, bias, heads = f(B, S, C), f(B, S, C), f(B, S, C), f(3 * C), {"num_heads": H}
    causal, past, op = {**heads, "unidirectional": 1}, [f(B, H, 3, D), f(B, H, 3, D)], "MultiHeadAttention"
    cross, other = [f(B, H, 6, D), f(B, H, 6, D)], [f(B, 6, C), f(B, 6, 12)]
    split = [x.reshape(B, S, H, D) for x in (q, k, v)]
    packed, pair = np.stack(split, 3), np.stack(split[1:], 3)
    cases = [
        Case(op, [q, k, v], heads), Case(op, [q, k, v], causal, "ykv"), Case(op, [q, k, v], {**heads, "scale": 0.25}),
        Case(op, [q, k, v, bias], heads), Case(op, [q, *other], heads, "ykv"), Case(op, [q, *other, f(2 * C + 12)], heads),
        Case(op, [q, *cross], heads), Case(op, [q, *cross, np.concatenate([bias[:C], 0 * bias[C:]])], heads),
        Case(op, [q, k, v, None, None, None, *past], heads, "ykv"),
        Case(op, [q, k, v, bias, i([1] * 7, [0, 0, 1, 1, 1, 1, 0]), f(1, H, S, 7), *past], causal, "ykv"),
        Case(op, [q, k, v, None, None, f(B, 1, S, S)], heads), Case(op, [q, k, v, None, MASKS[3], f(1, 1, S, S)], heads),
        Case(op, [q, k, v, None, MASKS[3]], {**heads, "mask_filter_value": -1.5}),
        Case(op, [packed], heads, instead=lambda: by_onnxruntime(op, [q, k, v], heads)),
        Case(op, [packed, None, None, bias], causal, instead=lambda: by_onnxruntime(op, [q, k, v, bias], causal)),
        Case(op, [q, pair], heads, "ykv", instead=lambda: by_onnxruntime(op, [q, k, v], heads, "ykv")),
    ]
    cases += [Case(op, [q, k, v, None, mask], {**form, **FILTER}) for mask in MASKS if mask.shape != (2 * B,) for form in (heads, causal)]
    return cases


def attention() -> List[Case]:
    x, weights, bias, heads, op = f(B, S, 6), f(6, 3 * C), f(3 * C), {"num_heads": H}, "Attention"
    causal, past, corner = {**heads, "unidirectional": 1}, f(2, B, H, 3, D), np.tril(np.ones((B, 1, 9, 9), np.int32))
    cases = [
        Case(op, [x, weights], heads), Case(op, [x, weights, bias], causal, "yp"),
        Case(op, [x, f(6, 2 * C + 12), f(2 * C + 12)], {**heads, "qkv_hidden_sizes": [C, C, 12], "scale": 0.5}),
        Case(op, [x, weights, bias, None, past], heads, "yp"), Case(op, [x, weights, bias, i([1] * 7, [1, 0, 1, 1, 1, 1, 0]), past], causal, "yp"),
        Case(op, [x, weights, bias, None, None, f(1, H, S, S)], causal), Case(op, [x, weights, bias, i([1], [1])], heads),
        Case(op, [x, weights, bias, corner, past], heads, "yp",
             instead=lambda: by_onnxruntime(op, [x, weights, bias, np.ascontiguousarray(corner[:, 0, 3:7, :7]), past], heads, "yp")),
    ]
    return cases + [Case(op, [x, weights, bias, mask], {**form, **FILTER}) for mask in MASKS for form in (heads, causal)]


def group_query_attention() -> List[Case]:
    op, few, room, size = "GroupQueryAttention", 2, 10, 16
    form: Dict[str, Any] = {"num_heads": 4, "kv_num_heads": few}
    turned, tables = {**form, "do_rotary": 1}, [f(12, size // 2), f(12, size // 2)]

    def step(tokens: int) -> Arrays:
        return [f(B, tokens, 4 * size), f(B, tokens, few * size), f(B, tokens, few * size)]

    def caches(lengths: Sequence[int], room: int) -> Arrays:
        made = [f(B, few, room, size), f(B, few, room, size)]
        for cache in made:
            for sample, length in enumerate(lengths):
                cache[sample, :, length:] = 0
        return made

    def case(step: Sequence[Given], past: Sequence[Given], lengths: Sequence[int], total: Given, attributes: Dict[str, Any], *more: Given,
             **options: Any) -> Case:
        return Case(op, [*step, *past, i(*lengths), total, *more], attributes, "ykv", **options)

    def places(*lengths: int) -> Any:
        """The first places of each sample's cache."""
        return np.repeat(range(B), lengths), slice(None), np.concatenate([range(length) for length in lengths])

    prompt, one, two, none = step(S), step(1), step(2), [None, None]
    packed = np.concatenate(prompt, -1)
    begun = caches([5, 3], room)
    norms, positions = [f(size), f(size)], np.array([[7, 2, 8, 1], [7, 3, 5, 6]])

    def normed() -> Arrays:
        parts = [by_onnxruntime("SimplifiedLayerNormalization", [x.reshape(B, S, -1, size), w], {"epsilon": 1e-4}, domain="")[0].reshape(x.shape)
                 for x, w in zip(prompt, norms)]
        return by_onnxruntime(op, [*parts, prompt[2], None, None, i(3, 3), i(4), *tables], turned, "ykv")

    cases = [
        # The first step: no past, an empty one, one that has room; padded, packed.
        case(prompt, none, [3, 3], Known(i(4)), form), case(prompt, none, [3, 3], i(4), {**form, "scale": 0.3, "softcap": 2.0}),
        case(prompt, none, [3, 3], Known(i(4)), turned, *tables), case([packed, None, None], none, [3, 3], Known(i(4)), turned, *tables),
        case(prompt, caches([0, 0], room), [3, 3], Known(i(4)), {**turned, "rotary_interleaved": 1}, *tables),
        case(prompt, none, [1, 3], Known(i(4)), turned, *tables, defined=([0, 0, 1, 1, 1, 1], [0, 1, 0, 1, 2, 3])),
        case(prompt, none, [3, 3], Known(i(4)), turned, *tables, positions),
        # One token behind those before, in the place of the cache or beside it; its length known or not.
        case(one, begun, [5, 3], Known(i(room)), form), case(one, begun, [5, 3], i(room), turned, *tables),
        case(one, caches([9, 9], 9), [9, 9], Known(i(10)), turned, *tables), case(one, caches([6, 4], 7), [6, 4], Known(i(8)), turned, *tables),
        case(one, begun, [5, 3], Known(i(room)), turned, *tables, np.array([[2], [7]])),
        case(one, begun, [5, 3], Known(i(room)), {**form, "smooth_softmax": 1}), case(one, begun, [5, 3], i(room), form, *[None] * 4, f(4)),
        # A window, a bias, all keys; with room for all tokens, nothing slides.
        # onnxruntime leaves what lies behind the tokens as it finds it.
        case(one, begun, [5, 3], Known(i(room)), {**form, "local_window_size": 3, "sliding_window_cache": 1}, held=places(6, 4)),
        case(prompt, none, [3, 3], Known(i(4)), {**form, "local_window_size": 2}), case(one, begun, [5, 3], Known(i(room)), {**form, "local_window_size": 3}),
        case(prompt, none, [3, 3], Known(i(4)), form, None, None, None, f(1, 4, S, S)), case(one, begun, [5, 3], Known(i(room)), form, None, None, None, f(B, 1, 1, room)),
        case(prompt, none, [2, 3], Known(i(4)), {**form, "causal": 0}, defined=([0, 0, 0, 1], [0, 1, 2, 0])),
        # Norms of heads, which onnxruntime's CPU leaves to its optimizer.
        case(prompt, none, [3, 3], Known(i(4)), {**turned, "qk_norm_epsilon": 1e-4}, *tables, *[None] * 5, *norms, instead=normed),
    ]
    # onnxruntime's CPU takes several tokens of a later step for one sample at a time.
    single = [x[:1] for x in two]
    cases.append(case(single, [x[:1] for x in begun], [6], Known(i(room)), turned, *tables))
    return cases


def experts() -> List[Case]:
    x, scores, op, number, inner = f(2, 3, 8), f(6, 4), "MoE", 4, 16
    first, second = [f(number, inner, 8), f(number, inner)], [f(number, 8, inner), f(number, 8)]
    gates, gated = [f(number, inner, 8), f(number, inner)], {"activation_type": "swiglu", "k": 2, "activation_alpha": 1.7, "activation_beta": 1.0}
    joined = [np.stack(pair, 2).reshape(number, 2 * inner, *pair[0].shape[2:]) for pair in zip(gates, first)]
    both = [np.concatenate(pair, 1) for pair in zip(gates, first)]
    fused = {**gated, "swiglu_fusion": 1}
    cases = [Case(op, [x, scores, *first, *second], {"activation_type": name, "k": k, "normalize_routing_weights": k % 2})
             for k, name in enumerate(("relu", "gelu", "silu", "identity"), 1)]
    return cases + [
        Case(op, [x[0], scores[:3], first[0], None, second[0]], {"k": 2}), Case(op, [x, scores, *joined, *second], fused),
        Case(op, [x, scores, *joined, *second], {**fused, "swiglu_limit": 0.5}),
        Case(op, [array.astype(np.float16) / 2 for array in (x, scores, *joined, *second)], {**fused, "swiglu_limit": 7.0, "swiglu_limit_after_activation": 0}),
        Case(op, [x, scores, *both, *second], {**gated, "swiglu_fusion": 2}, instead=lambda: by_onnxruntime(op, [x, scores, *joined, *second], fused)),
        Case(op, [x, scores, *gates, *second, *first], gated, instead=lambda: by_onnxruntime(op, [x, scores, *joined, *second], fused)),
    ]


def linear_attention() -> List[Case]:
    """Heads of queries, keys and values; what the state forgets is less than one."""
    def attention(heads: Sequence[int], rule: str = "gated_delta", wide: bool = False, shared: bool = False, past: bool = True, steps: int = 5,
                  **attributes: Any) -> Case:
        q, k, v = heads
        keys, values = 4, 6
        unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)  # noqa: E731
        decay = -np.abs(f(B, steps, v * keys if wide else v)) if "gated" in rule else None
        beta = np.abs(np.tanh(f(B, steps, 1 if shared else v))) if "delta" in rule else None
        inputs = [f(B, steps, q * keys), unit(f(B, steps, k, keys)).reshape(B, steps, k * keys), f(B, steps, v * values),
                  f(B, v, keys, values) if past else None, decay, beta]
        return Case("LinearAttention", inputs, {"q_num_heads": q, "kv_num_heads": v, "update_rule": rule, **attributes}, "yz")

    cases = [attention([2, 2, 2], rule) for rule in ("linear", "gated", "delta", "gated_delta")]
    cases += [attention([2, 2, 4], scale=0.7), attention([4, 2, 2]), attention([2, 1, 4], wide=True, past=False), attention([4, 4, 4], "delta", shared=True, steps=1),
              attention([2, 2, 2], "gated", wide=True)]

    def convolution(channels: int, taps: int, tokens: int, past: bool = True, bias: bool = True, dilation: int = 1, last: Sequence[int] = (), **attributes: Any) -> Case:
        shape = lambda count: [B, count, *last] if last else [B, channels, count]  # noqa: E731
        inputs = [f(*shape(tokens)), f(channels, 1, taps), f(channels) if bias else None, f(*shape((taps - 1) * dilation)) if past else None]
        return Case("CausalConvWithState", inputs, {"dilation": dilation, "channels_last": int(bool(last)), **attributes}, "yz")

    cases += [convolution(6, 4, 5, activation="silu", ndim=1, state_window=0), convolution(6, 4, 1), convolution(4, 3, 7, past=False, bias=False, activation="swish"),
              convolution(4, 3, 2, dilation=2), convolution(6, 4, 3, last=(6,)), convolution(6, 2, 5, last=(2, 3), dilation=3, activation="silu")]
    gate = [f(B, S, 4), f(4), -np.abs(f(4))]
    return cases + [
        Case("LinearAttentionGate", [*gate, f(B, S, 4)], outputs="yz"), Case("LinearAttentionGate", gate),
        Case("GatedRMSNorm", [f(B, S, 12), f(6), f(B, S, 12)], {"epsilon": 1e-3}), Case("GatedRMSNorm", [f(B, 6), f(6), f(B, 6)], {"activation": "sigmoid"}),
        Case("GatedAdd", [f(B, S, C), f(B, S, C), f(B, S, 1)]), *multimodal_rotary_embedding(),
    ]


def multimodal_rotary_embedding() -> List[Case]:
    angles = f(20, 4)
    tables, positions = [np.cos(angles), np.sin(angles)], RANDOM.integers(0, 20, (3, B, S))
    part = {"num_heads": H, "rotary_embedding_dim": 8}
    return [
        Case("MRotaryEmbedding", [f(B, S, H * 8), positions, *tables], {"num_heads": H, "mrope_section": [2, 1, 1]}),
        Case("MRotaryEmbedding", [f(B, S, H * 12), positions, *tables], {**part, "mrope_section": [1, 0, 3], "interleaved": 1}),
        Case("MRotaryEmbedding", [f(B, S, H * 12), positions, *tables], {**part, "mrope_section": [2, 1, 1], "mrope_layout": 1}),
        Case("MRotaryEmbedding", [f(B, H, S, 8), positions, *tables], {"mrope_section": [1, 2, 1], "mrope_layout": 1}),
    ]


FAMILIES = [normalization, activation, rotary_embedding, multi_head_attention, attention, group_query_attention, experts, linear_attention]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_cases_are_onnxruntimes(family: Callable[[], List[Case]], tmp_path: pathlib.Path) -> None:
    cases = family()
    options = ["--engine", "random", "--seed", "1"]
    compiled = autopar.compile(model_of(cases), tmp_path / "compiled.bin", ranks=2, options=options)
    with autopar.Session(compiled) as session:
        actual = session.run(fed(cases))
    for n, case in enumerate(cases):
        expected = case.instead() if case.instead else by_onnxruntime(case.op, case.inputs, case.attributes, case.outputs, case.domain)
        names = [f"y{n}.{k}" for k, letter in enumerate(case.outputs) if letter != "."]
        for k, (name, array) in enumerate(zip(names, expected)):
            where = case.defined if k == 0 else case.held
            rtol, atol = (1e-4, 1e-5) if array.dtype != np.float16 else (1e-3, 1e-3)
            np.testing.assert_allclose(actual[name][where], array[where], rtol, atol,
                                       err_msg=f"{name}: {case.op} {case.attributes} of {[getattr(x, 'shape', None) for x in case.inputs]}")
