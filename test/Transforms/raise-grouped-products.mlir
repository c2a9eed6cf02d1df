// RUN: autopar-opt %s --autopar-raise-composites | FileCheck %s

// Products with matrices that a lookup picks for each row, as a mixture of experts is exported: the looked up matrices
// are never made. Numbers count from the end where they are negative, as in the lookup.

// CHECK-LABEL: @batched
// CHECK-NOT: autopar.gather
// CHECK: %[[G:.*]] = autopar.binary min
// CHECK: %[[WIDE:.*]] = autopar.reshape %[[G]] : tensor<6x2xi64> -> tensor<6x2x1xi64>
// CHECK: autopar.grouped_dot %arg0, %arg1, %[[WIDE]] {autopar.id = "y"} : (tensor<6x2x1x16xf32>, tensor<4x16x32xf32>, tensor<6x2x1xi64>) -> tensor<6x2x1x32xf32>
func.func @batched(%x: tensor<6x2x1x16xf32>, %w: tensor<4x16x32xf32>, %i: tensor<6x2x1xi64>) -> tensor<6x2x1x32xf32> {
  %p = autopar.gather %w, %i dims [0] batch 0 {autopar.id = "picked"} : (tensor<4x16x32xf32>, tensor<6x2x1xi64>) -> tensor<6x2x16x32xf32>
  %y = autopar.dot_general %x, %p batch [0, 1] x [0, 1] contract [3] x [2] {autopar.id = "y"} : (tensor<6x2x1x16xf32>, tensor<6x2x16x32xf32>) -> tensor<6x2x1x32xf32>
  return %y : tensor<6x2x1x32xf32>
}

// A token that is multiplied by the matrices of two experts is repeated; matrices may lie transposed.

// CHECK-LABEL: @repeated
// CHECK: %[[X:.*]] = autopar.broadcast %arg0 dims [0, 2] {{.*}}-> tensor<6x2x16xf32>
// CHECK: autopar.grouped_dot %[[X]], %arg1, %{{.*}} transposed
func.func @repeated(%x: tensor<6x16xf32>, %w: tensor<4x32x16xf32>, %i: tensor<6x2x1xi64>) -> tensor<6x2x32xf32> {
  %p = autopar.gather %w, %i dims [0] batch 0 : (tensor<4x32x16xf32>, tensor<6x2x1xi64>) -> tensor<6x2x32x16xf32>
  %y = autopar.dot_general %x, %p batch [0] x [0] contract [1] x [3] : (tensor<6x16xf32>, tensor<6x2x32x16xf32>) -> tensor<6x2x32xf32>
  return %y : tensor<6x2x32xf32>
}

// Left alone: matrices that something else reads too, rows that are summed over, integers.

// CHECK-LABEL: @others
// CHECK-NOT: autopar.grouped_dot
// CHECK: return
func.func @others(%x: tensor<6x16xf32>, %n: tensor<6x16xi32>, %w: tensor<4x16x32xf32>, %v: tensor<4x16x32xi32>, %i: tensor<6x1xi64>)
    -> (tensor<6x32xf32>, tensor<6x16x32xf32>, tensor<32xf32>, tensor<6x32xi32>) {
  %p = autopar.gather %w, %i dims [0] batch 0 {autopar.id = "a"} : (tensor<4x16x32xf32>, tensor<6x1xi64>) -> tensor<6x16x32xf32>
  %y = autopar.dot_general %x, %p batch [0] x [0] contract [1] x [1] : (tensor<6x16xf32>, tensor<6x16x32xf32>) -> tensor<6x32xf32>
  %t = autopar.unary neg %w : tensor<4x16x32xf32>
  %q = autopar.gather %t, %i dims [0] batch 0 {autopar.id = "b"} : (tensor<4x16x32xf32>, tensor<6x1xi64>) -> tensor<6x16x32xf32>
  %s = autopar.dot_general %x, %q contract [0, 1] x [0, 1] : (tensor<6x16xf32>, tensor<6x16x32xf32>) -> tensor<32xf32>
  %r = autopar.gather %v, %i dims [0] batch 0 : (tensor<4x16x32xi32>, tensor<6x1xi64>) -> tensor<6x16x32xi32>
  %z = autopar.dot_general %n, %r batch [0] x [0] contract [1] x [1] : (tensor<6x16xi32>, tensor<6x16x32xi32>) -> tensor<6x32xi32>
  return %y, %p, %s, %z : tensor<6x32xf32>, tensor<6x16x32xf32>, tensor<32xf32>, tensor<6x32xi32>
}
