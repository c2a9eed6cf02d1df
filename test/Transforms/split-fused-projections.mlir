// RUN: autopar-opt %s --autopar-split-fused-projections --split-input-file | FileCheck %s

// Query, key and value of gpt2: a product on rows, a bias, three slices.
// CHECK: autopar.origin @w : tensor<64x3x64xf32> in "gpt2.onnx" at 4096
// CHECK: autopar.origin @b : tensor<3x64xf32>
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<64x3x64xf32> {autopar.model_shape = array<i64: 64, 192>, autopar.origin = @w}, %[[B:[a-z0-9]+]]: tensor<3x64xf32> {autopar.model_shape = array<i64: 192>, autopar.origin = @b})
// CHECK: %[[D:.*]] = autopar.dot_general %{{.*}}, %[[W]] contract [1] x [0] {autopar.id = "c_attn"} : (tensor<8x64xf32>, tensor<64x3x64xf32>) -> tensor<8x3x64xf32>
// CHECK: %[[BB:.*]] = autopar.broadcast %[[B]] dims [1, 2] : tensor<3x64xf32> -> tensor<8x3x64xf32>
// CHECK: %[[S:.*]] = autopar.binary add %[[D]], %[[BB]] {autopar.id = "c_attn/bias"} : tensor<8x3x64xf32>
// CHECK: %[[H:.*]] = autopar.reshape %[[S]] : tensor<8x3x64xf32> -> tensor<2x4x3x64xf32>
// CHECK: %[[Q:.*]] = autopar.slice %[[H]] starts [0, 0, 0, 0] steps [1, 1, 1, 1] {autopar.id = "q"} : tensor<2x4x3x64xf32> -> tensor<2x4x1x64xf32>
// CHECK: autopar.reshape %[[Q]] {autopar.id = "q/reshape"} : tensor<2x4x1x64xf32> -> tensor<2x4x64xf32>
// CHECK: autopar.slice %[[H]] starts [0, 0, 1, 0]
// CHECK: autopar.slice %[[H]] starts [0, 0, 2, 0]
autopar.origin @w : tensor<64x192xf32> in "gpt2.onnx" at 4096
autopar.origin @b : tensor<192xf32> in "gpt2.onnx" at 64
func.func @main(%x: tensor<2x4x64xf32>, %w: tensor<64x192xf32> {autopar.origin = @w}, %b: tensor<192xf32> {autopar.origin = @b}) -> (tensor<2x4x64xf32>, tensor<2x4x64xf32>, tensor<2x4x64xf32>) {
  %rows = autopar.reshape %x : tensor<2x4x64xf32> -> tensor<8x64xf32>
  %d = autopar.dot_general %rows, %w contract [1] x [0] {autopar.id = "c_attn"} : (tensor<8x64xf32>, tensor<64x192xf32>) -> tensor<8x192xf32>
  %bb = autopar.broadcast %b dims [1] : tensor<192xf32> -> tensor<8x192xf32>
  %s = autopar.binary add %d, %bb {autopar.id = "c_attn/bias"} : tensor<8x192xf32>
  %h = autopar.reshape %s : tensor<8x192xf32> -> tensor<2x4x192xf32>
  %q = autopar.slice %h starts [0, 0, 0] steps [1, 1, 1] {autopar.id = "q"} : tensor<2x4x192xf32> -> tensor<2x4x64xf32>
  %k = autopar.slice %h starts [0, 0, 64] steps [1, 1, 1] {autopar.id = "k"} : tensor<2x4x192xf32> -> tensor<2x4x64xf32>
  %v = autopar.slice %h starts [0, 0, 128] steps [1, 1, 1] {autopar.id = "v"} : tensor<2x4x192xf32> -> tensor<2x4x64xf32>
  return %q, %k, %v : tensor<2x4x64xf32>, tensor<2x4x64xf32>, tensor<2x4x64xf32>
}

// -----

// The parts stand in the first dimension of a transposed weight.
// CHECK: autopar.origin @w : tensor<2x32x16xf32>
// CHECK-LABEL: func.func @transposed_weight(
// CHECK: %[[T:.*]] = autopar.transpose %{{.*}} permutation [2, 0, 1] : tensor<2x32x16xf32> -> tensor<16x2x32xf32>
// CHECK: autopar.dot_general %{{.*}}, %[[T]] contract [2] x [0] : (tensor<2x4x16xf32>, tensor<16x2x32xf32>) -> tensor<2x4x2x32xf32>
autopar.origin @w : tensor<64x16xf32>
func.func @transposed_weight(%x: tensor<2x4x16xf32>, %w: tensor<64x16xf32> {autopar.origin = @w}) -> tensor<2x4x32xf32> {
  %t = autopar.transpose %w permutation [1, 0] : tensor<64x16xf32> -> tensor<16x64xf32>
  %d = autopar.dot_general %x, %t contract [2] x [0] : (tensor<2x4x16xf32>, tensor<16x64xf32>) -> tensor<2x4x64xf32>
  %g = autopar.slice %d starts [0, 0, 0] steps [1, 1, 1] : tensor<2x4x64xf32> -> tensor<2x4x32xf32>
  %u = autopar.slice %d starts [0, 0, 32] steps [1, 1, 1] : tensor<2x4x64xf32> -> tensor<2x4x32xf32>
  %y = autopar.binary mul %g, %u : tensor<2x4x32xf32>
  return %y : tensor<2x4x32xf32>
}

// -----

// The parts are cut out by a reshape to [batch, tokens, 3, heads, width].
// CHECK: autopar.origin @w : tensor<16x3x16xf32>
// CHECK-LABEL: func.func @reshaped(
// CHECK: %[[D:.*]] = autopar.dot_general %{{.*}} -> tensor<2x4x3x16xf32>
// CHECK: autopar.reshape %[[D]] : tensor<2x4x3x16xf32> -> tensor<2x4x3x2x8xf32>
autopar.origin @w : tensor<16x48xf32>
func.func @reshaped(%x: tensor<2x4x16xf32>, %w: tensor<16x48xf32> {autopar.origin = @w}) -> (tensor<1x2x2x4x8xf32>, tensor<1x2x2x4x8xf32>, tensor<1x2x2x4x8xf32>) {
  %d = autopar.dot_general %x, %w contract [2] x [0] : (tensor<2x4x16xf32>, tensor<16x48xf32>) -> tensor<2x4x48xf32>
  %r = autopar.reshape %d : tensor<2x4x48xf32> -> tensor<2x4x3x2x8xf32>
  %t = autopar.transpose %r permutation [2, 0, 3, 1, 4] : tensor<2x4x3x2x8xf32> -> tensor<3x2x2x4x8xf32>
  %q = autopar.slice %t starts [0, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<3x2x2x4x8xf32> -> tensor<1x2x2x4x8xf32>
  %k = autopar.slice %t starts [1, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<3x2x2x4x8xf32> -> tensor<1x2x2x4x8xf32>
  %v = autopar.slice %t starts [2, 0, 0, 0, 0] steps [1, 1, 1, 1, 1] : tensor<3x2x2x4x8xf32> -> tensor<1x2x2x4x8xf32>
  return %q, %k, %v : tensor<1x2x2x4x8xf32>, tensor<1x2x2x4x8xf32>, tensor<1x2x2x4x8xf32>
}

// -----

// Parts of unequal extent, and a product with another user, stay.
// CHECK: autopar.origin @w : tensor<16x48xf32>
// CHECK-LABEL: func.func @unequal(
// CHECK: autopar.slice %{{.*}} starts [0, 32] steps [1, 1] : tensor<8x48xf32> -> tensor<8x8xf32>
// CHECK-LABEL: func.func @other_user(
// CHECK: autopar.slice %{{.*}} : tensor<8x48xf32> -> tensor<8x24xf32>
// CHECK-LABEL: func.func @shared_weight(
// CHECK-SAME: tensor<16x48xf32>
// CHECK: autopar.slice %{{.*}} : tensor<8x48xf32> -> tensor<8x24xf32>
// CHECK-LABEL: func.func @no_parameter(
// CHECK-SAME: tensor<16x48xf32>
autopar.origin @w : tensor<16x48xf32>
func.func @unequal(%x: tensor<8x16xf32>, %w: tensor<16x48xf32> {autopar.origin = @w}) -> (tensor<8x32xf32>, tensor<8x8xf32>, tensor<8x8xf32>) {
  %d = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
  %q = autopar.slice %d starts [0, 0] steps [1, 1] : tensor<8x48xf32> -> tensor<8x32xf32>
  %k = autopar.slice %d starts [0, 32] steps [1, 1] : tensor<8x48xf32> -> tensor<8x8xf32>
  %v = autopar.slice %d starts [0, 40] steps [1, 1] : tensor<8x48xf32> -> tensor<8x8xf32>
  return %q, %k, %v : tensor<8x32xf32>, tensor<8x8xf32>, tensor<8x8xf32>
}
func.func @other_user(%x: tensor<8x16xf32>, %w: tensor<16x48xf32> {autopar.origin = @w}) -> (tensor<8x24xf32>, tensor<8x24xf32>, tensor<8x48xf32>) {
  %d = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
  %a = autopar.slice %d starts [0, 0] steps [1, 1] : tensor<8x48xf32> -> tensor<8x24xf32>
  %b = autopar.slice %d starts [0, 24] steps [1, 1] : tensor<8x48xf32> -> tensor<8x24xf32>
  return %a, %b, %d : tensor<8x24xf32>, tensor<8x24xf32>, tensor<8x48xf32>
}
func.func @shared_weight(%x: tensor<8x16xf32>, %w: tensor<16x48xf32> {autopar.origin = @w}) -> (tensor<8x24xf32>, tensor<8x24xf32>, tensor<16x48xf32>) {
  %d = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
  %a = autopar.slice %d starts [0, 0] steps [1, 1] : tensor<8x48xf32> -> tensor<8x24xf32>
  %b = autopar.slice %d starts [0, 24] steps [1, 1] : tensor<8x48xf32> -> tensor<8x24xf32>
  return %a, %b, %w : tensor<8x24xf32>, tensor<8x24xf32>, tensor<16x48xf32>
}
func.func @no_parameter(%x: tensor<8x16xf32>, %w: tensor<16x48xf32>) -> (tensor<8x24xf32>, tensor<8x24xf32>) {
  %d = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x16xf32>, tensor<16x48xf32>) -> tensor<8x48xf32>
  %a = autopar.slice %d starts [0, 0] steps [1, 1] : tensor<8x48xf32> -> tensor<8x24xf32>
  %b = autopar.slice %d starts [0, 24] steps [1, 1] : tensor<8x48xf32> -> tensor<8x24xf32>
  return %a, %b : tensor<8x24xf32>, tensor<8x24xf32>
}
