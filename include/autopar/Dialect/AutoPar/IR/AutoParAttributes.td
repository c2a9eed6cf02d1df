// SPDX-License-Identifier: Apache-2.0
// Shardings, strategies and the enumerations of operation kinds.

#ifndef AUTOPAR_ATTRIBUTES_TD
#define AUTOPAR_ATTRIBUTES_TD

include "autopar/Dialect/AutoPar/IR/AutoParDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class AutoPar_Attr<string name, string attrMnemonic> : AttrDef<AutoPar_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def AutoPar_ShardingAttr : AutoPar_Attr<"Sharding", "sharding"> {
  let summary = "how a tensor is distributed over a mesh";
  let description = [{
    One list of mesh axes per tensor dimension, major to minor; an axis appears at most once. The shard
    of a dimension of extent n over k ranks holds ceil(n / k) positions, the last ones fewer valid
    ones. `partial` names axes over which the ranks hold terms that still have to be combined.

    `#autopar.sharding<@mesh, [{"x"}, {} ]>`, `#autopar.sharding<@mesh, [{}, {} ], partial = {"t"} sum>`
  }];
  let parameters = (ins
    "::mlir::FlatSymbolRefAttr":$mesh,
    ArrayRefParameter<"::mlir::ArrayAttr", "axis names (StringAttr) per dimension">:$dims,
    "::mlir::ArrayAttr":$partial,
    "::mlir::autopar::ReductionKind":$reduction);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def AutoPar_StrategyAttr : AutoPar_Attr<"Strategy", "strategy"> {
  let summary = "the mesh axes of each factor of an operation";
  let description = [{
    Entry i holds the axes, major to minor, over which factor i of the operation's sharding rule is
    split. `#autopar.strategy<@mesh, [{"x"}, {}, {"t"} ]>`
  }];
  let parameters = (ins
    "::mlir::FlatSymbolRefAttr":$mesh,
    ArrayRefParameter<"::mlir::ArrayAttr", "axis names (StringAttr) per factor">:$factors);
  let hasCustomAssemblyFormat = 1;
}

class AutoPar_Enum<string name, list<I32EnumAttrCase> cases> : I32EnumAttr<name, name, cases> {
  let cppNamespace = "::mlir::autopar";
  let genSpecializedAttr = 0;
}
class AutoPar_EnumAttr<EnumAttrInfo info, string attrMnemonic>
    : EnumAttr<AutoPar_Dialect, info, attrMnemonic> {
  let assemblyFormat = "$value";
}

defvar unaryNames = [
    ["Neg", "neg"], ["Abs", "abs"], ["Exp", "exp"], ["Log", "log"], ["Sqrt", "sqrt"], ["Rsqrt",
    "rsqrt"], ["Reciprocal", "reciprocal"], ["Sin", "sin"], ["Cos", "cos"], ["Tan", "tan"], ["Asin",
    "asin"], ["Acos", "acos"], ["Atan", "atan"], ["Sinh", "sinh"], ["Cosh", "cosh"], ["Tanh",
    "tanh"], ["Asinh", "asinh"], ["Acosh", "acosh"], ["Atanh", "atanh"], ["Erf", "erf"], ["Sigmoid",
    "sigmoid"], ["Relu", "relu"], ["Gelu", "gelu"], ["GeluTanh", "gelu_tanh"], ["Silu", "silu"],
    ["Softplus", "softplus"], ["Sign", "sign"], ["Floor", "floor"], ["Ceil", "ceil"], ["Round",
    "round"], ["Not", "not"]];
def AutoPar_UnaryKind : AutoPar_Enum<"UnaryKind",
    !foreach(i, !range(!size(unaryNames)), I32EnumAttrCase<unaryNames[i][0], i, unaryNames[i][1]>)>;
def AutoPar_UnaryKindAttr : AutoPar_EnumAttr<AutoPar_UnaryKind, "unary_kind">;

// `remainder` has the sign of the dividend (C fmod), `modulo` that of the divisor (Python %).
defvar binaryNames = [
    ["Add", "add"], ["Sub", "sub"], ["Mul", "mul"], ["Div", "div"], ["Pow", "pow"], ["Max", "max"],
    ["Min", "min"], ["Remainder", "remainder"], ["Modulo", "modulo"], ["And", "and"], ["Or", "or"],
    ["Xor", "xor"], ["ShiftLeft", "shift_left"], ["ShiftRight", "shift_right"]];
def AutoPar_BinaryKind : AutoPar_Enum<"BinaryKind",
    !foreach(i, !range(!size(binaryNames)), I32EnumAttrCase<binaryNames[i][0], i, binaryNames[i][1]>)>;
def AutoPar_BinaryKindAttr : AutoPar_EnumAttr<AutoPar_BinaryKind, "binary_kind">;

defvar compareNames = [
    ["Eq", "eq"], ["Ne", "ne"], ["Lt", "lt"], ["Le", "le"], ["Gt", "gt"], ["Ge", "ge"]];
def AutoPar_ComparePredicate : AutoPar_Enum<"ComparePredicate",
    !foreach(i, !range(!size(compareNames)), I32EnumAttrCase<compareNames[i][0], i, compareNames[i][1]>)>;
def AutoPar_ComparePredicateAttr : AutoPar_EnumAttr<AutoPar_ComparePredicate, "compare_predicate">;

// The numbers agree with ReductionKind in ShardingRule.h.
defvar reduceNames = [
    ["Sum", "sum"], ["Prod", "prod"], ["Max", "max"], ["Min", "min"], ["And", "and"], ["Or", "or"]];
def AutoPar_ReduceKind : AutoPar_Enum<"ReduceKind",
    !foreach(i, !range(!size(reduceNames)), I32EnumAttrCase<reduceNames[i][0], i, reduceNames[i][1]>)>;
def AutoPar_ReduceKindAttr : AutoPar_EnumAttr<AutoPar_ReduceKind, "reduce_kind">;

defvar scatterNames = [
    ["Assign", "assign"], ["Add", "add"], ["Mul", "mul"], ["Max", "max"], ["Min", "min"]];
def AutoPar_ScatterKind : AutoPar_Enum<"ScatterKind",
    !foreach(i, !range(!size(scatterNames)), I32EnumAttrCase<scatterNames[i][0], i, scatterNames[i][1]>)>;
def AutoPar_ScatterKindAttr : AutoPar_EnumAttr<AutoPar_ScatterKind, "scatter_kind">;

defvar randomNames = [
    ["Uniform", "uniform"], ["Normal", "normal"], ["Bits", "bits"]];
def AutoPar_RandomKind : AutoPar_Enum<"RandomKind",
    !foreach(i, !range(!size(randomNames)), I32EnumAttrCase<randomNames[i][0], i, randomNames[i][1]>)>;
def AutoPar_RandomKindAttr : AutoPar_EnumAttr<AutoPar_RandomKind, "random_kind">;

#endif
