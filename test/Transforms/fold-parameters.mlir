// RUN: autopar-opt %s --autopar-fold-parameters --split-input-file | FileCheck %s

// A reshape is the way in which the parameter is read.
// CHECK: autopar.origin @b : tensor<1x8x1x1xf32> in "m.onnx" at 64
// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<1x8x1x1xf32> {autopar.model_shape = array<i64: 8>, autopar.origin = @b})
// CHECK-NEXT: autopar.broadcast %[[B]]
// A parameter that is used otherwise too keeps its shape.
// CHECK-LABEL: func.func @two_uses(
// CHECK-NEXT: autopar.reshape
// CHECK-LABEL: func.func @sharded(
// CHECK-NEXT: autopar.reshape
autopar.mesh @mesh ["t" = 2]
autopar.origin @b : tensor<8xf32> in "m.onnx" at 64
autopar.origin @c : tensor<8xf32> in "m.onnx" at 96
func.func @reshape(%b: tensor<8xf32> {autopar.origin = @b}) -> tensor<2x8x4x4xf32> {
  %0 = autopar.reshape %b : tensor<8xf32> -> tensor<8x1xf32>
  %1 = autopar.reshape %0 : tensor<8x1xf32> -> tensor<1x8x1x1xf32>
  %2 = autopar.broadcast %1 dims [0, 1, 2, 3] : tensor<1x8x1x1xf32> -> tensor<2x8x4x4xf32>
  return %2 : tensor<2x8x4x4xf32>
}
func.func @two_uses(%b: tensor<8xf32> {autopar.origin = @c}) -> (tensor<2x4xf32>, tensor<8xf32>) {
  %0 = autopar.reshape %b : tensor<8xf32> -> tensor<2x4xf32>
  return %0, %b : tensor<2x4xf32>, tensor<8xf32>
}
func.func @sharded(%b: tensor<8xf32> {autopar.origin = @c, autopar.sharding = #autopar.sharding<@mesh, [{"t"}]>}) -> tensor<2x4xf32> {
  %0 = autopar.reshape %b : tensor<8xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// The output matrix of a language model is the embedding, read by columns.
// CHECK-LABEL: func.func @tied_logits(
// CHECK-NEXT: autopar.dot_general %{{.*}}, %{{.*}} contract [2] x [1] {autopar.id = "lm_head"} : (tensor<2x4x16xf32>, tensor<100x16xf32>) -> tensor<2x4x100xf32>
// CHECK-NEXT: return
// A transposition that orders the result's dimensions stays, and so does one of an activation.
// CHECK-LABEL: func.func @orders_result(
// CHECK-NEXT: autopar.transpose
// CHECK-LABEL: func.func @activation(
// CHECK-NEXT: autopar.transpose
autopar.origin @w : tensor<100x16xf32>
func.func @tied_logits(%x: tensor<2x4x16xf32>, %w: tensor<100x16xf32> {autopar.origin = @w}) -> tensor<2x4x100xf32> {
  %t = autopar.transpose %w permutation [1, 0] : tensor<100x16xf32> -> tensor<16x100xf32>
  %y = autopar.dot_general %x, %t contract [2] x [0] {autopar.id = "lm_head"} : (tensor<2x4x16xf32>, tensor<16x100xf32>) -> tensor<2x4x100xf32>
  return %y : tensor<2x4x100xf32>
}
func.func @orders_result(%x: tensor<4x16xf32>, %w: tensor<3x16x5xf32> {autopar.origin = @w}) -> tensor<4x5x3xf32> {
  %t = autopar.transpose %w permutation [1, 2, 0] : tensor<3x16x5xf32> -> tensor<16x5x3xf32>
  %y = autopar.dot_general %x, %t contract [1] x [0] : (tensor<4x16xf32>, tensor<16x5x3xf32>) -> tensor<4x5x3xf32>
  return %y : tensor<4x5x3xf32>
}
func.func @activation(%x: tensor<4x16xf32>, %w: tensor<100x16xf32>) -> tensor<4x100xf32> {
  %t = autopar.transpose %w permutation [1, 0] : tensor<100x16xf32> -> tensor<16x100xf32>
  %y = autopar.dot_general %x, %t contract [1] x [0] : (tensor<4x16xf32>, tensor<16x100xf32>) -> tensor<4x100xf32>
  return %y : tensor<4x100xf32>
}

// -----

// A weight that is the same for the whole batch.
// CHECK-LABEL: func.func @broadcast_weight(
// CHECK-NEXT: autopar.dot_general %{{.*}}, %{{.*}} contract [2] x [0] : (tensor<8x4x16xf32>, tensor<16x32xf32>) -> tensor<8x4x32xf32>
// CHECK-LABEL: func.func @unit_batch(
// CHECK: %[[W:.*]] = autopar.reshape %{{.*}} : tensor<1x16x32xf32> -> tensor<16x32xf32>
// CHECK: autopar.dot_general %{{.*}}, %[[W]] contract [2] x [0] : (tensor<8x4x16xf32>, tensor<16x32xf32>) -> tensor<8x4x32xf32>
// Tokens that are the same for every expert: the experts lead the result, so they stay a batch.
// CHECK-LABEL: func.func @broadcast_tokens(
// CHECK: autopar.dot_general %{{.*}} batch [0] x [0]
func.func @broadcast_weight(%x: tensor<8x4x16xf32>, %w: tensor<16x32xf32>) -> tensor<8x4x32xf32> {
  %b = autopar.broadcast %w dims [1, 2] : tensor<16x32xf32> -> tensor<8x16x32xf32>
  %y = autopar.dot_general %x, %b batch [0] x [0] contract [2] x [1] : (tensor<8x4x16xf32>, tensor<8x16x32xf32>) -> tensor<8x4x32xf32>
  return %y : tensor<8x4x32xf32>
}
func.func @unit_batch(%x: tensor<8x4x16xf32>, %w: tensor<1x16x32xf32>) -> tensor<8x4x32xf32> {
  %b = autopar.broadcast %w dims [0, 1, 2] : tensor<1x16x32xf32> -> tensor<8x16x32xf32>
  %y = autopar.dot_general %x, %b batch [0] x [0] contract [2] x [1] : (tensor<8x4x16xf32>, tensor<8x16x32xf32>) -> tensor<8x4x32xf32>
  return %y : tensor<8x4x32xf32>
}
func.func @broadcast_tokens(%x: tensor<4x16xf32>, %w: tensor<8x16x32xf32>) -> tensor<8x4x32xf32> {
  %b = autopar.broadcast %x dims [1, 2] : tensor<4x16xf32> -> tensor<8x4x16xf32>
  %y = autopar.dot_general %b, %w batch [0] x [0] contract [2] x [1] : (tensor<8x4x16xf32>, tensor<8x16x32xf32>) -> tensor<8x4x32xf32>
  return %y : tensor<8x4x32xf32>
}

// -----

// CHECK-LABEL: func.func @constants(
// CHECK-NEXT: %[[C:.*]] = autopar.constant {autopar.id = "half"} dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf16>
// CHECK-NEXT: return %[[C]]
func.func @constants() -> tensor<2xf16> {
  %c = autopar.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %h = autopar.cast %c {autopar.id = "half"} : tensor<2xf32> -> tensor<2xf16>
  return %h : tensor<2xf16>
}
