// RUN: autopar-opt %s --autopar-choose-trainable 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WHY < %t
// RUN: autopar-opt %s --autopar-choose-trainable="freeze=embed*" 2>&1 | FileCheck %s --check-prefix=FREEZE
// RUN: autopar-opt %s --autopar-choose-trainable="train-only=*.weight" 2>&1 | FileCheck %s --check-prefix=ONLY

// RUN: not autopar-opt %s --autopar-choose-trainable="freeze=*" 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: autopar-opt %s --autopar-choose-trainable="train-only=scale" 2>&1 | FileCheck %s --check-prefix=NAMED
// RUN: not autopar-opt %s --autopar-choose-trainable="train-only=positions" 2>&1 | FileCheck %s --check-prefix=NEVER

// ALL: error: nothing is left to train
// ALL-NEXT: frozen by name: embed.weight
// NAMED: trained without weight decay: scale
// RUN: autopar-opt %s --autopar-choose-trainable="train-only=table" 2>&1 | FileCheck %s --check-prefix=FIXED
// FIXED: trained: table
// NEVER: error: train-only: "positions" cannot be trained: it holds no floats

// Floats are trained; weight decay is for matrices.

// CHECK-LABEL: func.func @main
// CHECK-SAME: %arg1: tensor<4x4xf32> {autopar.name = "embed.weight", autopar.origin = @w, autopar.trainable = "decay"}
// CHECK-SAME: %arg2: tensor<4xf32> {autopar.name = "bias", autopar.origin = @b, autopar.trainable = "no_decay"}
// CHECK-SAME: %arg3: tensor<4xi64> {autopar.name = "positions", autopar.origin = @p}
// CHECK-SAME: %arg4: tensor<f32> {autopar.name = "scale", autopar.origin = @s}
// CHECK-SAME: %arg5: tensor<4xf32> {autopar.name = "bn.running_mean", autopar.origin = @r}

// CHECK-SAME: %arg11: tensor<1x4xf32> {autopar.name = "head.w", autopar.origin = @h, autopar.trainable = "decay"}
// CHECK-SAME: %arg12: tensor<1xf32> {autopar.name = "offset", autopar.origin = @o, autopar.trainable = "no_decay"}
// CHECK-SAME: %arg13: tensor<1xf32> {autopar.name = "prelu.weight", autopar.origin = @a, autopar.trainable = "no_decay"}

// WHY: remark: trains 5 parameters, 26 numbers
// WHY-NEXT: trained: embed.weight, head.w
// WHY-NEXT: trained without weight decay: bias, offset, prelu.weight
// WHY-NEXT: it holds no floats: positions
// WHY-NEXT: it is a single number: scale
// WHY-NEXT: it is a running statistic: bn.running_mean, bn.*.running_mean (2)
// WHY-NEXT: it is a table of rotary embeddings: rotary_emb.cos_cached
// WHY-NEXT: it is a mask: layers.*.attn_mask
// WHY-NEXT: the model updates it itself: statistic
// WHY-NEXT: the export says so: table
// WHY-NEXT: it holds quantized floats: rounded

// FREEZE: remark: trains 4 parameters, 10 numbers
// FREEZE: frozen by name: embed.weight
// FREEZE: trained without weight decay: bias

// ONLY: trained: embed.weight
// ONLY: not among those to be trained: bias, positions
autopar.origin @w : tensor<4x4xf32>
autopar.origin @b : tensor<4xf32>
autopar.origin @p : tensor<4xi64>
autopar.origin @s : tensor<f32>
autopar.origin @r : tensor<4xf32>
autopar.origin @r1 : tensor<4xf32>
autopar.origin @r2 : tensor<4xf32>
autopar.origin @t : tensor<4xf32>
autopar.origin @c : tensor<4x2xf32>
autopar.origin @m : tensor<4x4xf32>
autopar.origin @h : tensor<1x4xf32>
autopar.origin @o : tensor<1xf32>
autopar.origin @a : tensor<1xf32>
autopar.origin @f : tensor<4x4xf32>
autopar.origin @q : tensor<4xf8E4M3FN>
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"},
                %w: tensor<4x4xf32> {autopar.name = "embed.weight", autopar.origin = @w},
                %b: tensor<4xf32> {autopar.name = "bias", autopar.origin = @b},
                %p: tensor<4xi64> {autopar.name = "positions", autopar.origin = @p},
                %s: tensor<f32> {autopar.name = "scale", autopar.origin = @s},
                %r: tensor<4xf32> {autopar.name = "bn.running_mean", autopar.origin = @r},
                %r1: tensor<4xf32> {autopar.name = "bn.0.running_mean", autopar.origin = @r1},
                %r2: tensor<4xf32> {autopar.name = "bn.1.running_mean", autopar.origin = @r2},
                %c: tensor<4x2xf32> {autopar.name = "rotary_emb.cos_cached", autopar.origin = @c},
                %m: tensor<4x4xf32> {autopar.name = "layers.0.attn_mask", autopar.origin = @m},
                %t: tensor<4xf32> {autopar.donated, autopar.name = "statistic", autopar.origin = @t},
                %h: tensor<1x4xf32> {autopar.name = "head.w", autopar.origin = @h},
                %o: tensor<1xf32> {autopar.name = "offset", autopar.origin = @o},
                %a: tensor<1xf32> {autopar.name = "prelu.weight", autopar.origin = @a},
                %f: tensor<4x4xf32> {autopar.fixed = "the export says so", autopar.name = "table", autopar.origin = @f},
                %q: tensor<4xf8E4M3FN> {autopar.name = "rounded", autopar.origin = @q}) -> tensor<2x1xf32> {
  %product = autopar.dot_general %x, %h contract [1] x [1] : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x1xf32>
  %wide = autopar.broadcast %o dims [1] : tensor<1xf32> -> tensor<2x1xf32>
  %y = autopar.binary add %product, %wide : tensor<2x1xf32>
  return %y : tensor<2x1xf32>
}
