// SPDX-License-Identifier: Apache-2.0
// Base classes shared by the operation families.

#ifndef AUTOPAR_OPBASES_TD
#define AUTOPAR_OPBASES_TD

include "autopar/Dialect/AutoPar/IR/AutoParAttributes.td"
include "autopar/Interfaces/ShardingRuleInterface.td"
include "autopar/Interfaces/CostInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/IR/SymbolInterfaces.td"

def AutoPar_Element : AnyTypeOf<[I1, I8, I16, I32, I64, UI8, UI16, UI32, UI64, F16, BF16, F32, F64,
    F8E4M3FN, F8E4M3FNUZ, F8E5M2, F8E5M2FNUZ, F4E2M1FN,
    I<2>, UI<2>, I<4>, UI<4>]>; // the last four during import only
def AutoPar_Tensor : StaticShapeTensorOf<[AutoPar_Element]>;
def AutoPar_BoolTensor : StaticShapeTensorOf<[I1]>;
def AutoPar_IndexTensor : StaticShapeTensorOf<[I32, I64]>;

// Computed inside its users' kernels (CostInterface.h).
def AutoPar_Light : NativeOpTrait<"LightOp"> {
  let cppNamespace = "::mlir::autopar";
}

// A value operation: no effects, a sharding rule of its own, default local rewrite and default cost.
class AutoPar_ValueOp<string mnemonic, list<Trait> traits = []>
    : AutoPar_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface>, CostOpInterface], traits)>;
// As above, and the operation rewrites itself to local shapes.
class AutoPar_PositionalOp<string mnemonic, list<Trait> traits = []>
    : AutoPar_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface, ["partition"]>, CostOpInterface], traits)>;
// The gradient of an operation by its operand as one operation of one type: expanded where kernels begin.
class AutoPar_GradientOp<string mnemonic, list<Trait> traits = []>
    : AutoPar_Op<mnemonic, !listconcat([Pure, SameOperandsAndResultType,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface, ["getFlops"]>], traits)>;

#endif
