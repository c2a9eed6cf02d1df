// RUN: not autopar-opt %s --autopar-add-adapters="adapters=dora(rank=2)" 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not autopar-opt %s --autopar-add-adapters="adapters=lora(q)" 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not autopar-opt %s --autopar-add-adapters="adapters=lora(rank=1.5)" 2>&1 | FileCheck %s --check-prefix=RANK
// RUN: not autopar-opt %s --autopar-add-adapters="adapters=lora(rank=2,alpha=0)" 2>&1 | FileCheck %s --check-prefix=ALPHA
// RUN: not autopar-opt %s --autopar-add-adapters="adapters=lora(rank=2,dropout=0.1)" 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not autopar-opt %s --autopar-add-adapters 2>&1 | FileCheck %s --check-prefix=LAST
// RUN: not autopar-opt %s --autopar-add-adapters="adapt=nothing*" 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not autopar-opt %s --autopar-add-adapters="adapt=bias" 2>&1 | FileCheck %s --check-prefix=BIAS
// RUN: not autopar-opt %S/Inputs/empty.mlir --autopar-add-adapters 2>&1 | FileCheck %s --check-prefix=MAIN

// KIND: error: adapters "dora(rank=2)": unknown adapters; expected lora(rank=8, alpha=16) at character 1
// WORD: error: adapters "lora(q)": lora takes options (rank=8) only, at character 1
// RANK: error: adapters "lora(rank=1.5)": rank: expected a whole number of at least 1 at character 1
// ALPHA: error: adapters "lora(rank=2,alpha=0)": alpha: expected a number other than 0 at character 1
// OPTION: error: adapters "lora(rank=2,dropout=0.1)": unknown option "dropout"; lora takes rank, alpha at character 13
// LAST: error: adapters: there is nothing to adapt: expected products of the model's matrices with what it computes, before the last
// UNUSED: error: adapt: no matrix of a product is called "nothing*"; names as in the model file, * stands for any characters
// BIAS: error: adapt: no matrix of a product is called "bias"; names as in the model file
// MAIN: error: expected a function @main of one block to adapt
autopar.origin @w : tensor<8x8xf32>
autopar.origin @b : tensor<8xf32>
func.func @main(%x: tensor<4x8xf32> {autopar.name = "x"}, %w: tensor<8x8xf32> {autopar.name = "w", autopar.origin = @w},
                %b: tensor<8xf32> {autopar.name = "bias", autopar.origin = @b}) -> (tensor<4x8xf32> {autopar.name = "y"}) {
  %0 = autopar.dot_general %x, %w contract [1] x [0] : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = autopar.broadcast %b dims [1] : tensor<8xf32> -> tensor<4x8xf32>
  %2 = autopar.binary add %0, %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
