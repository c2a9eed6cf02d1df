// SPDX-License-Identifier: Apache-2.0
// Single instructions of NVIDIA's GPUs (the unit for special functions), as the dialects of LLVM
// name them.
#include "Formulas.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace autopar::kernelmath {

Expr cudaExp2(Expr x) {
  ImplicitLocOpBuilder &builder = x.getBuilder();
  auto name = builder.getStringAttr("llvm.nvvm.ex2.approx.ftz.f32");
  return {builder, LLVM::CallIntrinsicOp::create(builder, x.type(), name, x.value()).getResult(0)};
}

Expr cudaSaturate(Expr x) {
  ImplicitLocOpBuilder &builder = x.getBuilder();
  auto name = builder.getStringAttr("llvm.nvvm.saturate.f");
  return {builder, LLVM::CallIntrinsicOp::create(builder, x.type(), name, x.value()).getResult(0)};
}

Expr cudaReciprocal(Expr x) {
  ImplicitLocOpBuilder &builder = x.getBuilder();
  return {builder, NVVM::RcpApproxFtzF32Op::create(builder, x.type(), x.value())};
}

} // namespace autopar::kernelmath
