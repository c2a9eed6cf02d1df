// RUN: not autopar-opt %s --autopar-choose-trainable="freeze=nothing*" 2>&1 | FileCheck %s --check-prefix=UNUSED
// RUN: not autopar-opt %s --autopar-choose-trainable="train-only=[" 2>&1 | FileCheck %s --check-prefix=PATTERN
// RUN: not autopar-opt %S/Inputs/empty.mlir --autopar-choose-trainable 2>&1 | FileCheck %s --check-prefix=MAIN

// UNUSED: error: freeze: no parameter is called "nothing*"; names as in the model file, * stands for any characters
// PATTERN: error: train-only: "[" is no pattern
// MAIN: error: expected a function @main to train
autopar.origin @w : tensor<4x4xf32>
func.func @main(%w: tensor<4x4xf32> {autopar.name = "w", autopar.origin = @w}) -> tensor<4x4xf32> {
  return %w : tensor<4x4xf32>
}
