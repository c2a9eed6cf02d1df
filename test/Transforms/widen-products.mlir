// RUN: autopar-opt %s --autopar-widen-products | FileCheck %s
// RUN: autopar-opt %s --autopar-widen-products=bf16-library=false | FileCheck %s --check-prefix=NONE

// Products of f16 are computed in f32; an operand of two products is widened once, and products of bf16 and f32 stay, where the library has
// any of bf16.
// NONE-LABEL: func.func @main
// NONE: %[[V:.*]] = autopar.cast %arg2 {{.*}} : tensor<4x4xbf16> -> tensor<4x4xf32>
// NONE: %[[P:.*]] = autopar.dot_general %[[V]], %[[V]] {{.*}} -> tensor<4x4xf32>
// NONE: %[[C:.*]] = autopar.cast %[[P]] {autopar.id = "c/bf16"} : tensor<4x4xf32> -> tensor<4x4xbf16>
// NONE: return {{.*}}, %[[C]]

// CHECK-LABEL: func.func @main
// CHECK: %[[X:.*]] = autopar.cast %arg0 {autopar.id = "a/f32.0"} : tensor<2x4xf16> -> tensor<2x4xf32>
// CHECK: %[[W:.*]] = autopar.cast %arg1 {{.*}} : tensor<4x4xf16> -> tensor<4x4xf32>
// CHECK: %[[P:.*]] = autopar.dot_general %[[X]], %[[W]] {{.*}} -> tensor<2x4xf32>
// CHECK: %[[A:.*]] = autopar.cast %[[P]] {autopar.id = "a/f16"} : tensor<2x4xf32> -> tensor<2x4xf16>
// CHECK: %[[B:.*]] = autopar.dot_general %[[X]], %[[W]] {{.*}} -> tensor<2x4xf32>
// CHECK: %[[C:.*]] = autopar.dot_general %arg2, %arg2 {{.*}} -> tensor<4x4xbf16>
// CHECK: return %[[A]], %[[B]], %[[C]]
func.func @main(%x: tensor<2x4xf16>, %w: tensor<4x4xf16>, %v: tensor<4x4xbf16>)
    -> (tensor<2x4xf16>, tensor<2x4xf32>, tensor<4x4xbf16>) {
  %a = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "a"} : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf16>
  %b = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "b"} : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf32>
  %c = autopar.dot_general %v, %v contract [1] x [0] {autopar.id = "c"} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return %a, %b, %c : tensor<2x4xf16>, tensor<2x4xf32>, tensor<4x4xbf16>
}

// Products of 8 bits are computed in f32, or in bf16 where the processor multiplies that.
// RUN: autopar-opt %s --autopar-widen-products | FileCheck %s --check-prefix=BYTES
// RUN: autopar-opt %s --autopar-widen-products=bf16=true | FileCheck %s --check-prefix=SHORT
// BYTES-LABEL: func.func @bytes
// BYTES: %[[P:.*]] = autopar.dot_general {{.*}} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
// BYTES: autopar.cast %[[P]] {autopar.id = "a/bf16"} : tensor<2x4xf32> -> tensor<2x4xbf16>
// SHORT-LABEL: func.func @bytes
// SHORT: %[[X:.*]] = autopar.cast %arg0 {autopar.id = "a/bf16.0"} : tensor<2x4xf8E4M3FN> -> tensor<2x4xbf16>
// SHORT: %[[P:.*]] = autopar.dot_general %[[X]], {{.*}} : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
// SHORT: return %[[P]]
func.func @bytes(%x: tensor<2x4xf8E4M3FN>, %w: tensor<4x4xf8E4M3FN>) -> tensor<2x4xbf16> {
  %a = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "a"} : (tensor<2x4xf8E4M3FN>, tensor<4x4xf8E4M3FN>) -> tensor<2x4xbf16>
  return %a : tensor<2x4xbf16>
}
