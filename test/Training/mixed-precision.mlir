// RUN: autopar-opt %s --autopar-mixed-precision="precision=bf16" --canonicalize --split-input-file | FileCheck %s
// RUN: autopar-opt %s --autopar-mixed-precision="precision=fp16" --canonicalize --split-input-file | FileCheck %s --check-prefix=FP16
// RUN: autopar-opt %s --autopar-mixed-precision="precision=f32" --split-input-file | FileCheck %s --check-prefix=F32

// Products are narrow, each parameter is rounded once (a transposed one before it is transposed), what is between
// products is computed in f32 and rounded, and the function's own types stay.

// CHECK: func.func @main(%arg0: tensor<2x4xf32> {{.*}}, %arg1: tensor<4x4xf32> {{.*}}, %arg2: tensor<4xf32> {{.*}}) -> (tensor<2x4xf32>
// CHECK-SAME: attributes {autopar.precision = bf16}
// CHECK-DAG: %[[W:.*]] = autopar.cast %arg1 {autopar.id = "w/bf16"} : tensor<4x4xf32> -> tensor<4x4xbf16>
// CHECK-DAG: %[[X:.*]] = autopar.cast %arg0 {autopar.id = "x/bf16"} : tensor<2x4xf32> -> tensor<2x4xbf16>
// CHECK: %[[H:.*]] = autopar.dot_general %[[X]], %[[W]] {{.*}} : (tensor<2x4xbf16>, tensor<4x4xbf16>) -> tensor<2x4xbf16>
// CHECK: %[[HW:.*]] = autopar.cast %[[H]] {autopar.id = "fc1/f32"}
// CHECK: autopar.broadcast %arg2
// CHECK: %[[B:.*]] = autopar.binary add %[[HW]], {{.*}} : tensor<2x4xf32>
// CHECK: %[[BN:.*]] = autopar.cast %[[B]] {{.*}} -> tensor<2x4xbf16>
// CHECK: autopar.unary gelu {{.*}} : tensor<2x4xf32>
// CHECK: %[[WT:.*]] = autopar.transpose %[[W]] {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[Y:.*]] = autopar.dot_general {{.*}}, %[[WT]] {{.*}} -> tensor<2x4xbf16>
// CHECK: %[[R:.*]] = autopar.cast %[[Y]] {{.*}} -> tensor<2x4xf32>
// CHECK: return %[[R]]
// FP16: attributes {autopar.precision = f16}
// FP16: autopar.dot_general {{.*}} -> tensor<2x4xf16>
// F32-NOT: bf16
// F32-NOT: autopar.precision
func.func @main(%x: tensor<2x4xf32> {autopar.name = "x"}, %w: tensor<4x4xf32> {autopar.name = "w"},
                %b: tensor<4xf32> {autopar.name = "b"}) -> (tensor<2x4xf32> {autopar.name = "y"}) {
  %h = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "fc1"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %r = autopar.broadcast %b dims [1] : tensor<4xf32> -> tensor<2x4xf32>
  %s = autopar.binary add %h, %r {autopar.id = "bias"} : tensor<2x4xf32>
  %a = autopar.unary gelu %s {autopar.id = "act"} : tensor<2x4xf32>
  %t = autopar.transpose %w permutation [1, 0] {autopar.id = "turn"} : tensor<4x4xf32> -> tensor<4x4xf32>
  %y = autopar.dot_general %a, %t contract [1] x [0] {autopar.id = "fc2"} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// -----

// Sums and the logarithm of softmax stay f32, softmax is computed in f32 and rounded, what moves elements stays
// narrow; what never meets a narrow value stays as it is.

// CHECK: %[[H:.*]] = autopar.dot_general {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[T:.*]] = autopar.transpose %[[H]] {{.*}} : tensor<4x4xbf16> -> tensor<4x4xbf16>
// CHECK: autopar.reduce max %[[T]] {{.*}} : tensor<4x4xbf16> -> tensor<4xbf16>
// CHECK: %[[S:.*]] = autopar.reduce sum {{.*}} : tensor<4x4xf32> -> tensor<4xf32>
// CHECK: autopar.softmax {{.*}} : tensor<4x4xf32>
// CHECK-NEXT: autopar.cast {{.*}} -> tensor<4x4xbf16>
// CHECK: %[[L:.*]] = autopar.softmax {{.*}} dim 1 log {{.*}} : tensor<4x4xf32>
// CHECK: %[[D:.*]] = autopar.unary exp %arg1 {autopar.id = "exp"} : tensor<4xf32>
// CHECK: return %[[S]], {{.*}}, {{.*}}, %[[L]], %[[D]]
func.func @main(%x: tensor<4x4xf32>, %v: tensor<4xf32>)
    -> (tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) {
  %h = autopar.dot_general %x, %x contract [1] x [0] {autopar.id = "dot"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %t = autopar.transpose %h permutation [1, 0] {autopar.id = "turn"} : tensor<4x4xf32> -> tensor<4x4xf32>
  %m = autopar.reduce max %t dims [1] {autopar.id = "max"} : tensor<4x4xf32> -> tensor<4xf32>
  %s = autopar.reduce sum %t dims [1] {autopar.id = "sum"} : tensor<4x4xf32> -> tensor<4xf32>
  %p = autopar.softmax %t dim 1 {autopar.id = "softmax"} : tensor<4x4xf32>
  %l = autopar.softmax %t dim 1 log {autopar.id = "log"} : tensor<4x4xf32>
  %e = autopar.unary exp %v {autopar.id = "exp"} : tensor<4xf32>
  return %s, %m, %p, %l, %e : tensor<4xf32>, tensor<4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
}
