// RUN: autopar-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(autopar-fold-repeated-heads))" | FileCheck %s

// Scores and contexts of heads that share keys and values, three a group.

// CHECK-LABEL: func.func @groups
// CHECK-NOT: autopar.broadcast
// CHECK: %[[Q:.*]] = autopar.reshape %arg0 {{.*}}: tensor<2x12x5x16xf32> -> tensor<2x4x15x16xf32>
// CHECK: %[[S:.*]] = autopar.dot_general %[[Q]], %arg1 batch [0, 1] x [0, 1] contract [3] x [3] {autopar.id = "s"} : (tensor<2x4x15x16xf32>, tensor<2x4x64x16xf32>) -> tensor<2x4x15x64xf32>
// CHECK: %[[H:.*]] = autopar.reshape %[[S]] {{.*}}: tensor<2x4x15x64xf32> -> tensor<2x12x5x64xf32>
// CHECK: %[[P:.*]] = autopar.softmax %[[H]] dim 3
// CHECK: %[[R:.*]] = autopar.reshape %[[P]] {{.*}}: tensor<2x12x5x64xf32> -> tensor<2x4x15x64xf32>
// CHECK: autopar.dot_general %[[R]], %arg1 batch [0, 1] x [0, 1] contract [3] x [2] {{.*}}-> tensor<2x4x15x16xf32>
func.func @groups(%q: tensor<2x12x5x16xf32>, %k: tensor<2x4x64x16xf32>) -> tensor<2x12x5x16xf32> {
  %w = autopar.broadcast %k dims [0, 1, 3, 4] : tensor<2x4x64x16xf32> -> tensor<2x4x3x64x16xf32>
  %r = autopar.reshape %w : tensor<2x4x3x64x16xf32> -> tensor<2x12x64x16xf32>
  %s = autopar.dot_general %q, %r batch [0, 1] x [0, 1] contract [3] x [3] {autopar.id = "s"} : (tensor<2x12x5x16xf32>, tensor<2x12x64x16xf32>) -> tensor<2x12x5x64xf32>
  %p = autopar.softmax %s dim 3 : tensor<2x12x5x64xf32>
  %y = autopar.dot_general %p, %r batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<2x12x5x64xf32>, tensor<2x12x64x16xf32>) -> tensor<2x12x5x16xf32>
  return %y : tensor<2x12x5x16xf32>
}

// -----

// Rows that do not lie beside each other, and what is not repeated by heads, stay.

// CHECK-LABEL: func.func @others
// CHECK: autopar.broadcast
// CHECK: autopar.dot_general %arg0, %{{.*}} contract [2] x [2]
// CHECK: autopar.dot_general %arg1, %arg1
func.func @others(%q: tensor<2x12x16x5xf32>, %k: tensor<2x12x16x64xf32>, %c: tensor<2x4x16x64xf32>) -> (tensor<2x12x5x64xf32>, tensor<2x12x16x16xf32>) {
  %w = autopar.broadcast %c dims [0, 1, 3, 4] : tensor<2x4x16x64xf32> -> tensor<2x4x3x16x64xf32>
  %r = autopar.reshape %w : tensor<2x4x3x16x64xf32> -> tensor<2x12x16x64xf32>
  %s = autopar.dot_general %q, %r batch [0, 1] x [0, 1] contract [2] x [2] : (tensor<2x12x16x5xf32>, tensor<2x12x16x64xf32>) -> tensor<2x12x5x64xf32>
  %t = autopar.dot_general %k, %k batch [0, 1] x [0, 1] contract [3] x [3] : (tensor<2x12x16x64xf32>, tensor<2x12x16x64xf32>) -> tensor<2x12x16x16xf32>
  return %s, %t : tensor<2x12x5x64xf32>, tensor<2x12x16x16xf32>
}

// -----

// One query a head: the heads of a group are the queries of one.

// CHECK-LABEL: func.func @queries
// CHECK: %[[Q:.*]] = autopar.reshape %arg0 {{.*}}: tensor<2x12x1x16xf32> -> tensor<2x4x3x16xf32>
// CHECK: %[[O:.*]], %{{.*}} = autopar.attention %[[Q]], %arg1, %arg1 bias %arg2 scale 5.000000e-01 {autopar.id = "a"}
// CHECK: autopar.reshape %[[O]] {{.*}}: tensor<2x4x3x16xf32> -> tensor<2x12x1x16xf32>
// CHECK: %[[B:.*]] = autopar.reshape %arg3 {{.*}}: tensor<1x12x1x64xf32> -> tensor<1x4x3x64xf32>
// CHECK: autopar.attention {{.*}} bias %[[B]] scale 5.000000e-01 :
// CHECK: autopar.attention %arg4, %arg1, %arg1 scale 5.000000e-01 :
func.func @queries(%q: tensor<2x12x1x16xf32>, %k: tensor<2x4x64x16xf32>, %mask: tensor<2x1x1x64xf32>, %bias: tensor<1x12x1x64xf32>, %two: tensor<2x12x2x16xf32>)
    -> (tensor<2x12x1x16xf32>, tensor<2x12x1x16xf32>, tensor<2x12x2x16xf32>) {
  %a, %l = autopar.attention %q, %k, %k bias %mask scale 5.000000e-01 {autopar.id = "a"} : (tensor<2x12x1x16xf32>, tensor<2x4x64x16xf32>, tensor<2x4x64x16xf32>, tensor<2x1x1x64xf32>) -> (tensor<2x12x1x16xf32>, tensor<2x12x1xf32>)
  %b, %m = autopar.attention %q, %k, %k bias %bias scale 5.000000e-01 causal : (tensor<2x12x1x16xf32>, tensor<2x4x64x16xf32>, tensor<2x4x64x16xf32>, tensor<1x12x1x64xf32>) -> (tensor<2x12x1x16xf32>, tensor<2x12x1xf32>)
  %c, %n = autopar.attention %two, %k, %k scale 5.000000e-01 : (tensor<2x12x2x16xf32>, tensor<2x4x64x16xf32>, tensor<2x4x64x16xf32>) -> (tensor<2x12x2x16xf32>, tensor<2x12x2xf32>)
  return %a, %b, %c : tensor<2x12x1x16xf32>, tensor<2x12x1x16xf32>, tensor<2x12x2x16xf32>
}
