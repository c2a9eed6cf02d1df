// RUN: autopar-opt %s --pass-pipeline="builtin.module(autopar-choose-trainable)" | FileCheck %s
// RUN: autopar-opt %s --pass-pipeline="builtin.module(autopar-choose-trainable{no-decay=f*,bias})" | FileCheck %s --check-prefix=NAMED
// RUN: not autopar-opt %s --pass-pipeline="builtin.module(autopar-choose-trainable{no-decay=pos_embed})" 2>&1 | FileCheck %s --check-prefix=NONE

// Scales and biases are not decayed, in whatever shape an exporter stores them; matrices are, even of one row.

// CHECK-LABEL: func.func @main
// CHECK-SAME: "scale", autopar.origin = @scale, autopar.trainable = "no_decay"
// CHECK-SAME: "bias", autopar.origin = @bias, autopar.trainable = "no_decay"
// CHECK-SAME: "row", autopar.origin = @row, autopar.trainable = "decay"
// CHECK-SAME: "filter", autopar.origin = @filter, autopar.trainable = "decay"

// NAMED: "row", autopar.origin = @row, autopar.trainable = "decay"
// NAMED-SAME: "filter", autopar.origin = @filter, autopar.trainable = "no_decay"
// NONE: error: no-decay: no parameter that is trained is called "pos_embed"
autopar.origin @scale : tensor<16x1x1xf32>
autopar.origin @bias : tensor<1x1x8xf32>
autopar.origin @row : tensor<1x8xf32>
autopar.origin @filter : tensor<1x1x3x3xf32>
func.func @main(%s: tensor<16x1x1xf32> {autopar.name = "scale", autopar.origin = @scale},
                %b: tensor<1x1x8xf32> {autopar.name = "bias", autopar.origin = @bias},
                %r: tensor<1x8xf32> {autopar.name = "row", autopar.origin = @row},
                %f: tensor<1x1x3x3xf32> {autopar.name = "filter", autopar.origin = @filter}) -> tensor<1x8xf32> {
  %0 = autopar.reshape %s : tensor<16x1x1xf32> -> tensor<2x8xf32>
  %1 = autopar.reshape %b : tensor<1x1x8xf32> -> tensor<1x8xf32>
  %2 = autopar.binary add %1, %r : tensor<1x8xf32>
  %3 = autopar.reduce sum %f dims [0, 1, 2, 3] : tensor<1x1x3x3xf32> -> tensor<f32>
  %4 = autopar.broadcast %3 dims [] : tensor<f32> -> tensor<1x8xf32>
  %5 = autopar.binary mul %2, %4 : tensor<1x8xf32>
  %6 = autopar.reduce sum %0 dims [0] : tensor<2x8xf32> -> tensor<8xf32>
  %7 = autopar.reshape %6 : tensor<8xf32> -> tensor<1x8xf32>
  %8 = autopar.binary add %5, %7 : tensor<1x8xf32>
  return %8 : tensor<1x8xf32>
}
