// RUN: autopar-opt %s --autopar-unflatten-rows | FileCheck %s

// A Gemm between two reshapes, as gpt2 has it after its attention.
// CHECK-LABEL: func.func @conv1d(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x4x3x5xf32>
// CHECK-NEXT: %[[R:.*]] = autopar.reshape %[[X]] {autopar.id = "rows"} : tensor<2x4x3x5xf32> -> tensor<2x4x15xf32>
// CHECK-NEXT: %[[D:.*]] = autopar.dot_general %[[R]], %{{.*}} contract [2] x [0] {autopar.id = "Gemm"} : (tensor<2x4x15xf32>, tensor<15x32xf32>) -> tensor<2x4x32xf32>
// CHECK-NEXT: %[[B:.*]] = autopar.broadcast %{{.*}} dims [2] : tensor<32xf32> -> tensor<2x4x32xf32>
// CHECK-NEXT: %[[A:.*]] = autopar.binary add %[[D]], %[[B]] {autopar.id = "Gemm/add"} : tensor<2x4x32xf32>
// CHECK-NEXT: return %[[A]]
func.func @conv1d(%x: tensor<2x4x3x5xf32>, %w: tensor<15x32xf32>, %b: tensor<32xf32>) -> tensor<2x4x32xf32> {
  %r = autopar.reshape %x {autopar.id = "rows"} : tensor<2x4x3x5xf32> -> tensor<8x15xf32>
  %d = autopar.dot_general %r, %w contract [1] x [0] {autopar.id = "Gemm"} : (tensor<8x15xf32>, tensor<15x32xf32>) -> tensor<8x32xf32>
  %bb = autopar.broadcast %b dims [1] : tensor<32xf32> -> tensor<8x32xf32>
  %a = autopar.binary add %d, %bb {autopar.id = "Gemm/add"} : tensor<8x32xf32>
  %y = autopar.reshape %a : tensor<8x32xf32> -> tensor<2x4x32xf32>
  return %y : tensor<2x4x32xf32>
}

// Three dimensions in one.
// CHECK-LABEL: func.func @pixels(
// CHECK-NEXT: %[[D:.*]] = autopar.dot_general %{{.*}} contract [3] x [0] : (tensor<2x4x6x8xf32>, tensor<8x3xf32>) -> tensor<2x4x6x3xf32>
// CHECK-NEXT: return %[[D]]
func.func @pixels(%x: tensor<2x4x6x8xf32>, %w: tensor<8x3xf32>) -> tensor<2x4x6x3xf32> {
  %r = autopar.reshape %x : tensor<2x4x6x8xf32> -> tensor<48x8xf32>
  %d = autopar.dot_general %r, %w contract [1] x [0] : (tensor<48x8xf32>, tensor<8x3xf32>) -> tensor<48x3xf32>
  %y = autopar.reshape %d : tensor<48x3xf32> -> tensor<2x4x6x3xf32>
  return %y : tensor<2x4x6x3xf32>
}

// Cut elsewhere than it was merged, and rows with another user.
// CHECK-LABEL: func.func @cut_elsewhere(
// CHECK: autopar.dot_general %{{.*}} -> tensor<12x3xf32>
// CHECK-LABEL: func.func @other_user(
// CHECK: autopar.dot_general %{{.*}} -> tensor<12x3xf32>
func.func @cut_elsewhere(%x: tensor<3x4x8xf32>, %w: tensor<8x3xf32>) -> tensor<2x6x3xf32> {
  %r = autopar.reshape %x : tensor<3x4x8xf32> -> tensor<12x8xf32>
  %d = autopar.dot_general %r, %w contract [1] x [0] : (tensor<12x8xf32>, tensor<8x3xf32>) -> tensor<12x3xf32>
  %y = autopar.reshape %d : tensor<12x3xf32> -> tensor<2x6x3xf32>
  return %y : tensor<2x6x3xf32>
}
func.func @other_user(%x: tensor<3x4x8xf32>, %w: tensor<8x3xf32>) -> (tensor<3x4x3xf32>, tensor<12x3xf32>) {
  %r = autopar.reshape %x : tensor<3x4x8xf32> -> tensor<12x8xf32>
  %d = autopar.dot_general %r, %w contract [1] x [0] : (tensor<12x8xf32>, tensor<8x3xf32>) -> tensor<12x3xf32>
  %y = autopar.reshape %d : tensor<12x3xf32> -> tensor<3x4x3xf32>
  return %y, %d : tensor<3x4x3xf32>, tensor<12x3xf32>
}
