// SPDX-License-Identifier: Apache-2.0
// The buffer type, the enumerations, and the geometries of library calls. The numbers of the
// enumerations agree with include/autopar/Artifact/Program.h.

#ifndef AUTOPAR_EXEC_ATTRIBUTES_TD
#define AUTOPAR_EXEC_ATTRIBUTES_TD

include "autopar/Dialect/Exec/IR/ExecDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/EnumAttr.td"

def Exec_BufferType : TypeDef<Exec_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "a range of an arena";
  let description = "Made by `exec.buffer` and `exec.view`; which bytes of the arena it is, memory planning decides.";
}

class Exec_Enum<string name, list<list<string>> names> : I32EnumAttr<name, name,
    !foreach(i, !range(!size(names)), I32EnumAttrCase<names[i][0], i, names[i][1]>)> {
  let cppNamespace = "::mlir::exec";
  let genSpecializedAttr = 0;
}
class Exec_EnumAttr<EnumAttrInfo info, string attrMnemonic> : EnumAttr<Exec_Dialect, info, attrMnemonic> {
  let assemblyFormat = "$value";
}

def Exec_Space : Exec_Enum<"Space", [["Device", "device"], ["PinnedHost", "pinned_host"], ["Disk", "disk"]]>;
def Exec_SpaceAttr : Exec_EnumAttr<Exec_Space, "space">;
def Exec_Queue : Exec_Enum<"Queue", [["Compute", "compute"], ["Communication", "communication"],
    ["CopyIn", "copy_in"], ["CopyOut", "copy_out"], ["Host", "host"], ["Receive", "receive"], ["Send", "send"]]>;
def Exec_QueueAttr : Exec_EnumAttr<Exec_Queue, "queue">;
def Exec_Role : Exec_Enum<"Role", [["Input", "input"], ["Output", "output"], ["Parameter", "parameter"],
    ["State", "state"], ["Metric", "metric"]]>;
def Exec_RoleAttr : Exec_EnumAttr<Exec_Role, "role">;
def Exec_Binding : Exec_Enum<"Binding", [["None", "none"], ["Control", "control"], ["RankValues", "rank_values"]]>;
def Exec_BindingAttr : Exec_EnumAttr<Exec_Binding, "binding">;
def Exec_Epilogue : Exec_Enum<"Epilogue", [["None", "none"], ["Relu", "relu"], ["GeluErf", "gelu_erf"], ["GeluTanh", "gelu_tanh"],
    ["GeluTanhGrad", "gelu_tanh_grad"], ["ReluAux", "relu_aux"], ["GeluTanhAux", "gelu_tanh_aux"], ["ReluGrad", "relu_grad"],
    ["SumsOfA", "sums_of_a"], ["SumsOfB", "sums_of_b"]]>;
def Exec_Algorithm : Exec_Enum<"ConvolutionAlgorithm", [["Direct", "direct"], ["Winograd", "winograd"]]>;
def Exec_ConvolutionKind : Exec_Enum<"ConvolutionKind", [["Forward", "forward"], ["InputGradient", "input_gradient"],
    ["FilterGradient", "filter_gradient"]]>;
def Exec_Layout : Exec_Enum<"Layout", [["Plain", "plain"], ["ChannelsLast", "channels_last"],
    ["Blocked8", "blocked8"], ["Blocked16", "blocked16"]]>;
def Exec_LayoutAttr : Exec_EnumAttr<Exec_Layout, "layout">;
def Exec_CollectiveKind : Exec_Enum<"CollectiveKind", [["AllReduce", "all_reduce"], ["AllGather", "all_gather"],
    ["ReduceScatter", "reduce_scatter"], ["AllToAll", "all_to_all"], ["Broadcast", "broadcast"]]>;
def Exec_CollectiveKindAttr : Exec_EnumAttr<Exec_CollectiveKind, "collective_kind">;
def Exec_Reduction : Exec_Enum<"Reduction", [["Sum", "sum"], ["Max", "max"], ["Min", "min"], ["Prod", "prod"]]>;
def Exec_ReductionAttr : Exec_EnumAttr<Exec_Reduction, "reduction">;

class Exec_Attr<string name, string attrMnemonic> : AttrDef<Exec_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def Exec_StridedAttr : Exec_Attr<"Strided", "strided"> {
  let summary = "an operand of a matrix product: element type, sizes, strides in elements";
  let description = "`#exec.strided<f32 [8, 64] strides [64, 1]>`";
  let parameters = (ins "::mlir::Type":$elementType, ArrayRefParameter<"int64_t">:$dims, ArrayRefParameter<"int64_t">:$strides);
  let assemblyFormat = "`<` $elementType `[` $dims `]` `strides` `[` $strides `]` `>`";
  let genVerifyDecl = 1;
}

def Exec_MatmulAttr : Exec_Attr<"MatmulGeometry", "matmul"> {
  let summary = "the geometry of a matrix product";
  let description = [{
    c = epilogue(scale * (a b + bias) + residual) with a [batch..., M, K], b [batch..., K, N] and c [batch..., M, N], all
    of one rank. Without `biasType` there is no bias. `packedB`: b lies as a pack of this geometry left it. With the epilogue
    `gelu_tanh_grad` the residual is not added: c = scale (a b) times the derivative of gelu_tanh at it; with `relu_grad` it is
    a mask of where relu was positive. `relu_aux` stores that mask beside c, `gelu_tanh_aux` what gelu_tanh was given,
    `sums_of_a` and `sums_of_b` the sums of that operand over the terms of the product.
  }];
  let parameters = (ins "::mlir::exec::StridedAttr":$a, "::mlir::exec::StridedAttr":$b, "::mlir::exec::StridedAttr":$c,
    OptionalParameter<"::mlir::Type">:$biasType,
    DefaultValuedParameter<"bool", "false">:$residual,
    DefaultValuedParameter<"::mlir::exec::Epilogue", "::mlir::exec::Epilogue::None">:$epilogue,
    OptionalParameter<"::mlir::FloatAttr">:$scale,
    DefaultValuedParameter<"bool", "false">:$packedB);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Exec_ConvolutionAttr : Exec_Attr<"ConvolutionGeometry", "convolution"> {
  let summary = "the geometry of a convolution";
  let description = [{
    y = epilogue(conv(x, w) + bias + residual) on logical shapes [N, C, spatial...]; one entry per spatial
    dimension in strides, pads and dilations (1 = dense). Of the gradient of the input, x is that of the output and y
    that of the input; of the gradient of the filter, x is the input, w the gradient of the output, which lies in
    `yLayout`, and y that of the filter.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$x, "::mlir::RankedTensorType":$w, "::mlir::RankedTensorType":$y,
    "::mlir::DenseI64ArrayAttr":$strides, "::mlir::DenseI64ArrayAttr":$padsBegin,
    "::mlir::DenseI64ArrayAttr":$padsEnd, "::mlir::DenseI64ArrayAttr":$dilations,
    DefaultValuedParameter<"int64_t", "1">:$groups,
    DefaultValuedParameter<"::mlir::exec::Layout", "::mlir::exec::Layout::Plain">:$xLayout,
    DefaultValuedParameter<"::mlir::exec::Layout", "::mlir::exec::Layout::Plain">:$yLayout,
    OptionalParameter<"::mlir::Type">:$biasType,
    DefaultValuedParameter<"bool", "false">:$residual,
    DefaultValuedParameter<"::mlir::exec::Epilogue", "::mlir::exec::Epilogue::None">:$epilogue,
    DefaultValuedParameter<"::mlir::exec::ConvolutionAlgorithm", "::mlir::exec::ConvolutionAlgorithm::Direct">:$algorithm,
    DefaultValuedParameter<"bool", "false">:$packedW,
    DefaultValuedParameter<"::mlir::exec::ConvolutionKind", "::mlir::exec::ConvolutionKind::Forward">:$kind);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Exec_AttentionAttr : Exec_Attr<"AttentionGeometry", "attention"> {
  let summary = "the geometry of attention, or of its gradient";
  let description = [{
    `operands`: query, key, value and output, of the gradient also those of output, query, key and value; all
    [batch, heads or groups, rows, size] and of one element type, with a last stride of 1. `bias`, where there is one,
    is [batch, heads, rows, columns] with strides of 0 along what it is repeated over. `window`: of the columns that a
    causal row sees, the last so many; 0: all.
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::exec::StridedAttr">:$operands,
    "::mlir::FloatAttr":$scale,
    DefaultValuedParameter<"bool", "false">:$causal,
    DefaultValuedParameter<"int64_t", "0">:$window,
    OptionalParameter<"::mlir::exec::StridedAttr">:$bias);
  let assemblyFormat = "`<` `[` $operands `]` `,` struct($scale, $causal, $window, $bias) `>`";
  let extraClassDeclaration = [{
    /// Whether it is that of the gradient.
    bool isGradient() const { return getOperands().size() == 8; }
  }];
}

def Exec_GroupedProductAttr : Exec_Attr<"GroupedProductGeometry", "grouped_product"> {
  let summary = "the geometry of a grouped product, or of its gradient by the matrices";
  let description = [{
    `lhs` is [rows..., depth], `rows` [rows..., columns], both with a last stride of 1: `rows` is the result, of the gradient its
    cotangent. `matrices` is row-major [groups, depth, columns], [groups, columns, depth] if `transposed`, and the result of
    the gradient. `numbers`: the integer type of the rows' groups. `madeColumns`: where a kernel makes the matrices, how many
    columns of one at a time.
  }];
  let parameters = (ins "::mlir::exec::StridedAttr":$lhs, "::mlir::exec::StridedAttr":$rows,
    "::mlir::RankedTensorType":$matrices, "::mlir::Type":$numbers,
    DefaultValuedParameter<"bool", "false">:$transposed,
    DefaultValuedParameter<"bool", "false">:$gradient,
    DefaultValuedParameter<"int64_t", "0">:$madeColumns);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Exec_ShardAttr : Exec_Attr<"Shard", "shard"> {
  let summary = "the box of a port's global tensor that a rank holds";
  let description = "`replica` counts ranks with the same box; replica 0 writes outputs.";
  let parameters = (ins "::mlir::DenseI64ArrayAttr":$offset, "::mlir::DenseI64ArrayAttr":$extent,
                        DefaultValuedParameter<"int32_t", "0">:$replica);
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif
