// RUN: split-file %s %t
// RUN: not autopar-opt %t/net.mlir --autopar-mixed-precision="precision=f8" 2>&1 | FileCheck %s --check-prefix=WORD
// WORD: error: precision: expected f32, bf16, fp16 or fp8, got "f8"
// RUN: not autopar-opt %t/empty.mlir --autopar-mixed-precision="precision=bf16" 2>&1 | FileCheck %s --check-prefix=EMPTY
// EMPTY: error: expected a function @main of one block to narrow
// RUN: not autopar-opt %t/net.mlir --autopar-build-training-step="loss=mse(y,t) gradient-dtype=bf16" 2>&1 | FileCheck %s --check-prefix=WIDE
// WIDE: error: gradient-dtype: expected f32, got "bf16"
// RUN: not autopar-opt %t/net.mlir --autopar-mixed-precision="precision=fp16" --autopar-build-training-step="loss=mse(y,t) gradient-dtype=bf16" 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: gradient-dtype: expected f32, or fp16 as the precision of the step, got "bf16"

//--- empty.mlir
module {
}

//--- net.mlir
func.func @main(%x: tensor<2xf32> {autopar.name = "x", autopar.trainable = "decay"}) -> (tensor<2xf32> {autopar.name = "y"}) {
  %y = autopar.unary exp %x {autopar.id = "exp"} : tensor<2xf32>
  return %y : tensor<2xf32>
}
