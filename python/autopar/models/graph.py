# SPDX-License-Identifier: Apache-2.0
"""Builds an ONNX graph the way torch.onnx lays it out.

Nodes are named by module path (`/transformer/h.0/attn/c_attn/Gemm`), parameters by dotted path
(`transformer.h.0.attn.c_attn.weight`), small constants are Constant nodes and equal ones are shared. Differences
between operator set versions (axes as attribute or input, Split, LayerNormalization, Gelu) are decided here, so that
the family files stay free of them.
"""

import contextlib
from typing import Dict, List, Sequence, Tuple, Union

import numpy as np
import onnx
from onnx import TensorProto, helper

from .family import ModelError
from .weights import DTYPES, Parameter, Recipe, encode

#: Oldest operator set the zoo writes: the first where axes of Squeeze, Unsqueeze and ReduceSum are inputs.
MIN_OPSET = 13
DEFAULT_OPSET = 17
#: Oldest where every operator used here takes bfloat16.
MIN_BFLOAT16_OPSET = 17

#: The same for convolutions.
MIN_BFLOAT16_CONV_OPSET = 22

#: Bits that a quantized weight may have.
WEIGHT_BITS = (2, 4, 8)

#: Largest buffer: they stay inside the model file, which ends at 2 GiB.
MAX_TABLE_BYTES = 256 << 20

#: An extent in a computed shape: a number, or the name of a one-element int64 tensor.
Extent = Union[int, str]


class GraphBuilder:
    """Collects nodes, inputs, outputs, parameters and buffers of one model.

    dtype: data type of parameters and activations, a key of weights.DTYPES.
    batch, seq: 0 leaves the dimension symbolic; a number fixes it, and shape computations fold away as they do in an
        export without dynamic axes.
    weight_bits: of linear layers' weights, in blocks as onnxruntime's tools quantize them; 0 leaves them floats.
    """

    def __init__(self, name: str, opset: int = DEFAULT_OPSET, dtype: str = "float32", batch: int = 0, seq: int = 0,
                 weight_bits: int = 0):
        newest = onnx.defs.onnx_opset_version()
        if not MIN_OPSET <= opset <= newest:
            raise ModelError(f"operator set {opset} is not available, expected {MIN_OPSET} to {newest}")
        if dtype not in DTYPES:
            raise ModelError(f"unknown data type '{dtype}', expected one of: {', '.join(DTYPES)}")
        if dtype == "bfloat16" and opset < MIN_BFLOAT16_OPSET:
            raise ModelError(f"bfloat16 needs operator set {MIN_BFLOAT16_OPSET} or newer, got {opset}")
        if weight_bits not in (0, *WEIGHT_BITS):
            raise ModelError(f"weights cannot have {weight_bits} bits, expected one of: {', '.join(map(str, WEIGHT_BITS))}")
        self.name = name
        self.opset = opset
        self.weight_bits = weight_bits
        self.dtype = dtype
        self.onnx_dtype = DTYPES[dtype][0]
        self.batch: Union[int, str] = batch or "batch"
        self.seq: Union[int, str] = seq or "seq"
        self.nodes: List[onnx.NodeProto] = []
        self.inputs: List[onnx.ValueInfoProto] = []
        self.outputs: List[onnx.ValueInfoProto] = []
        self.parameters: Dict[str, Parameter] = {}
        self.buffers: Dict[str, onnx.TensorProto] = {}
        self._path: List[str] = []
        self._params_path: List[str] = []
        self._counts: Dict[str, int] = {}
        self._constants: Dict[Tuple, str] = {}
        self._extents: Dict[Tuple[str, int], Extent] = {}
        self._input_shapes: Dict[str, Sequence[Union[int, str]]] = {}

    # --- names -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def scope(self, path: str, params: str = None):
        """Nodes inside are named below `path`, parameters below `params` (default: the same; "" adds nothing)."""
        params = path if params is None else params
        self._path.append(path)
        if params:
            self._params_path.append(params)
        yield self
        self._path.pop()
        if params:
            self._params_path.pop()

    def _node_name(self, op_type: str) -> str:
        base = "/" + "/".join(self._path + [op_type])
        count = self._counts.get(base, 0)
        self._counts[base] = count + 1
        return base if count == 0 else f"{base}_{count}"

    def _param_name(self, name: str) -> str:
        return ".".join(self._params_path + [name])

    # --- interface of the graph --------------------------------------------------------------------------------

    def input(self, name: str, shape: Sequence[Union[int, str]], elem_type: int = None) -> str:
        """A graph input; strings in `shape` are symbolic dimensions. elem_type defaults to the model's data type."""
        elem_type = self.onnx_dtype if elem_type is None else elem_type
        self.inputs.append(helper.make_tensor_value_info(name, elem_type, list(shape)))
        self._input_shapes[name] = shape
        return name

    def output(self, name: str, value: str, shape: Sequence[Union[int, str]]) -> None:
        """Makes `value` the graph output `name`; the node that computes it writes it under that name."""
        for node in reversed(self.nodes):
            if value in node.output:
                node.output[list(node.output).index(value)] = name
                break
        for node in self.nodes:
            for i, used in enumerate(node.input):
                if used == value:
                    node.input[i] = name
        self.outputs.append(helper.make_tensor_value_info(name, self.onnx_dtype, list(shape)))

    # --- tensors -----------------------------------------------------------------------------------------------

    def param(self, name: str, shape: Sequence[int], recipe: Recipe, dtype: str = None, trained: bool = True, numbers: int = 1) -> str:
        """A weight below the current scope. Asking twice for one name shares it (tied weights).

        dtype: for weights that stay float32 in a half-precision model, or are bytes. trained, numbers: of Parameter."""
        full = self._param_name(name)
        made = Parameter(full, tuple(shape), dtype or self.dtype, recipe, trained, numbers)
        if self.parameters.setdefault(full, made).shape != made.shape:
            raise ModelError(f"parameter '{full}' is used with shapes {self.parameters[full].shape} and {made.shape}")
        return full

    def buffer(self, name: str, values: np.ndarray) -> str:
        """A table that follows from the configuration (causal mask, rotary tables); it keeps its values in every file.

        float32 values are stored in the model's data type, others as they are."""
        full = self._param_name(name)
        if full not in self.buffers:
            self.buffers[full] = self._tensor(full, values)
        return full

    def const(self, values: np.ndarray, as_is: bool = False) -> str:
        """A small constant as a Constant node; equal constants are shared. float32 becomes the model's data type,
        unless `as_is`."""
        values = np.asarray(values)
        key = (values.dtype.str, values.shape, values.tobytes(), as_is)
        if key not in self._constants:
            name = self._node_name("Constant")
            tensor = onnx.numpy_helper.from_array(values) if as_is else self._tensor("", values)
            node = helper.make_node("Constant", [], [name + "_output_0"], name=name, value=tensor)
            self.nodes.append(node)
            self._constants[key] = name + "_output_0"
        return self._constants[key]

    def scalar(self, value: float) -> str:
        """A scalar constant of the model's data type."""
        return self.const(np.array(value, dtype=np.float32))

    def float32(self, value: float) -> str:
        """A scalar float32 constant, whatever the model's data type."""
        return self.const(np.array(value, dtype=np.float32), as_is=self.dtype != "float32")

    def ints(self, values: Sequence[int]) -> str:
        """An int64 vector constant."""
        return self.const(np.array(values, dtype=np.int64))

    def int_scalar(self, value: int) -> str:
        """An int64 scalar constant."""
        return self.const(np.array(value, dtype=np.int64))

    def lowest(self) -> str:
        """The most negative finite number of the model's data type: what exporters write for a masked score."""
        low = {"float32": np.finfo(np.float32).min, "float16": -65504.0, "bfloat16": -3.3895313892515355e38}
        return self.scalar(low[self.dtype])

    def _tensor(self, name: str, values: np.ndarray) -> onnx.TensorProto:
        if values.dtype != np.float32 or self.dtype == "float32":
            return onnx.numpy_helper.from_array(values, name)
        tensor = onnx.TensorProto(name=name, data_type=self.onnx_dtype, dims=values.shape)
        tensor.raw_data = encode(values, self.dtype)
        return tensor

    # --- operators ---------------------------------------------------------------------------------------------

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes):
        """Adds a node; returns the name of its output, or a list of names when `outputs` > 1."""
        name = self._node_name(op_type)
        results = [f"{name}_output_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), results, name=name, **attributes))
        return results[0] if outputs == 1 else results

    def conv(self, tensors: Sequence[str], kernel: int, stride: int, padding: int = 0) -> str:
        """A square 2-D convolution of tensors (input, weight and perhaps bias)."""
        if self.dtype == "bfloat16" and self.opset < MIN_BFLOAT16_CONV_OPSET:
            need = f"convolutions in bfloat16 need operator set {MIN_BFLOAT16_CONV_OPSET} or newer"
            raise ModelError(f"{need}, got {self.opset}")
        window = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return self.op("Conv", *tensors, dilations=[1, 1], group=1, **window)

    def cast(self, x: str, elem_type: int) -> str:
        """A Cast node."""
        return self.op("Cast", x, to=elem_type)

    def extent(self, x: str, axis: int) -> Extent:
        """The extent of graph input `x` along `axis`: a number if fixed, else computed by Shape and Gather once."""
        shape = self._input_shapes.get(x)
        if shape is not None and isinstance(shape[axis], int):
            return shape[axis]
        if (x, axis) not in self._extents:
            picked = self.op("Gather", self.op("Shape", x), self.int_scalar(axis), axis=0)
            self._extents[(x, axis)] = self.op("Unsqueeze", picked, self.ints([0]))
        return self._extents[(x, axis)]

    def shape(self, extents: Sequence[Extent]) -> str:
        """A shape vector: a Constant when every extent is a number, else a Concat of the parts."""
        if all(isinstance(e, int) for e in extents):
            return self.ints(extents)
        return self.op("Concat", *[self.ints([e]) if isinstance(e, int) else e for e in extents], axis=0)

    def reshape(self, x: str, extents: Sequence[Extent]) -> str:
        """Reshape to `extents` (-1 allowed once)."""
        return self.op("Reshape", x, self.shape(extents))

    def transpose(self, x: str, perm: Sequence[int]) -> str:
        """A Transpose node."""
        return self.op("Transpose", x, perm=list(perm))

    def unsqueeze(self, x: str, axis: int) -> str:
        """Inserts one dimension."""
        return self.op("Unsqueeze", x, self.ints([axis]))

    def slice(self, x: str, start: Extent, end: Extent, axis: int) -> str:
        """x[start:end] along `axis`."""
        ends = [self.ints([e]) if isinstance(e, int) else e for e in (start, end)]
        return self.op("Slice", x, ends[0], ends[1], self.ints([axis]), self.ints([1]))

    def split(self, x: str, sizes: Sequence[int], axis: int) -> List[str]:
        """Splits into parts of the given sizes."""
        return self.op("Split", x, self.ints(sizes), outputs=len(sizes), axis=axis)

    def reduce_mean(self, x: str, axis: int) -> str:
        """Mean along `axis`, dimension kept."""
        if self.opset >= 18:
            return self.op("ReduceMean", x, self.ints([axis]), keepdims=1)
        return self.op("ReduceMean", x, axes=[axis], keepdims=1)

    def reduce_sum(self, x: str, axis: int, keepdims: bool) -> str:
        """Sum along `axis`."""
        return self.op("ReduceSum", x, self.ints([axis]), keepdims=int(keepdims))

    def arange(self, extent: Extent) -> str:
        """0, 1, ... extent-1 as int64 [extent]; a Constant when the extent is a number."""
        if isinstance(extent, int):
            return self.ints(list(range(extent)))
        limit = self.op("Squeeze", extent, self.ints([0]))
        return self.op("Range", self.int_scalar(0), limit, self.int_scalar(1))

    def require_seq_at_most(self, positions: int) -> None:
        """Refuses a fixed sequence length that the position table does not cover."""
        if isinstance(self.seq, int) and self.seq > positions:
            raise ModelError(f"seq={self.seq} is longer than positions={positions}, lower seq or raise positions")

    def require_table_bytes(self, count: int, option: str) -> None:
        """Refuses a buffer that would take more than MAX_TABLE_BYTES, before it is made."""
        if count > MAX_TABLE_BYTES:
            limit = f"the limit is {MAX_TABLE_BYTES >> 20} MiB, lower {option}"
            raise ModelError(f"'{self.name}' would keep a table of {count >> 20} MiB because of {option}, {limit}")

    # --- the model ---------------------------------------------------------------------------------------------

    def parameter_count(self) -> int:
        """Number of trained scalars; running statistics, buffers and constants do not count."""
        return sum(p.elements * p.numbers for p in self.parameters.values() if p.trained)

    def parameter_bytes(self) -> int:
        """Bytes of all parameters."""
        return sum(p.nbytes for p in self.parameters.values())

    def buffer_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(len(b.raw_data) for b in self.buffers.values())

    def skeleton(self) -> onnx.ModelProto:
        """The model with buffers but without any parameter among its initializers."""
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, list(self.buffers.values()))
        opsets = [helper.make_opsetid("", self.opset)]
        if self.weight_bits:
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        model = helper.make_model(graph, opset_imports=opsets, producer_name="autopar.models")
        model.ir_version = helper.find_min_ir_version_for(opsets[:1])
        return model
