// RUN: autopar-opt %s --autopar-choose-trainable 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY < %t
// RUN: autopar-opt %s --autopar-choose-trainable="freeze=embed*" 2>&1 | FileCheck %s --check-prefix=FREEZE
// RUN: autopar-opt %s --autopar-choose-trainable="train-only=*.weight" 2>&1 | FileCheck %s --check-prefix=ONLY

// Floats are trained; weight decay is for matrices.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg1: tensor<4x4xf32> {autopar.name = "embed.weight", autopar.origin = @w, autopar.trainable = "decay"}
// CHECK-SAME: %arg2: tensor<4xf32> {autopar.name = "bias", autopar.origin = @b, autopar.trainable = "no_decay"}
// CHECK-SAME: %arg3: tensor<4xi64> {autopar.name = "positions", autopar.origin = @p}
// CHECK-SAME: %arg4: tensor<f32> {autopar.name = "scale", autopar.origin = @s}
// CHECK-SAME: %arg5: tensor<4xf32> {autopar.name = "bn.running_mean", autopar.origin = @r}

// WHY: remark: parameter "embed.weight" is trained
// WHY: remark: parameter "bias" is trained, without weight decay
// WHY: remark: parameter "positions" is not trained: it holds no floats
// WHY: remark: parameter "scale" is not trained: it is a single number
// WHY: remark: parameter "bn.running_mean" is not trained: it is a running statistic

// FREEZE: parameter "embed.weight" is not trained: frozen by name
// FREEZE: parameter "bias" is trained

// ONLY: parameter "embed.weight" is trained
// ONLY: parameter "bias" is not trained: not among those to be trained
autopar.origin @w : tensor<4x4xf32>
autopar.origin @b : tensor<4xf32>
autopar.origin @p : tensor<4xi64>
autopar.origin @s : tensor<f32>
autopar.origin @r : tensor<4xf32>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %w: tensor<4x4xf32> {autopar.name = "embed.weight", autopar.origin = @w},
                %b: tensor<4xf32> {autopar.name = "bias", autopar.origin = @b},
                %p: tensor<4xi64> {autopar.name = "positions", autopar.origin = @p},
                %s: tensor<f32> {autopar.name = "scale", autopar.origin = @s},
                %r: tensor<4xf32> {autopar.name = "bn.running_mean", autopar.origin = @r}) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}
