// RUN: autopar-opt %s --autopar-reduce-few-rows=rows-of-batch=4 --split-input-file | FileCheck %s

// Rows that meet a matrix of their own are multiplied so where a target asks for it. What the matrices have side by side
// stays where it is, and so do rows behind the batch.

// CHECK-LABEL: func.func @scores
// CHECK-SAME:  %[[Q:.*]]: tensor<2x3x1x64xbf16>, %[[K:.*]]: tensor<2x3x40x64xbf16>
// CHECK:       %[[QF:.*]] = autopar.cast %[[Q]] {{.*}} -> tensor<2x3x1x64xf32>
// CHECK:       %[[A:.*]] = autopar.broadcast %[[QF]] dims [0, 1, 2, 4] {{.*}} -> tensor<2x3x1x40x64xf32>
// CHECK:       %[[P:.*]] = autopar.binary mul %[[A]]
// CHECK:       %[[S:.*]] = autopar.reduce sum %[[P]] dims [4] {autopar.id = "s", autopar.rows_of_batch}
// CHECK:       %[[R:.*]] = autopar.cast %[[S]]
// CHECK:       return %[[R]] : tensor<2x3x1x40xbf16>
func.func @scores(%q: tensor<2x3x1x64xbf16>, %k: tensor<2x3x40x64xbf16>) -> tensor<2x3x1x40xbf16> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] {autopar.id = "s"} : (tensor<2x3x1x64xbf16>, tensor<2x3x40x64xbf16>) -> tensor<2x3x1x40xbf16>
  return %s : tensor<2x3x1x40xbf16>
}

// -----

// Four rows share a matrix, of which the lines are summed up.

// CHECK-LABEL: func.func @values
// CHECK-SAME:  %[[P:.*]]: tensor<6x4x40xf32>, %[[V:.*]]: tensor<6x40x64xf32>
// CHECK:       %[[A:.*]] = autopar.broadcast %[[P]] dims [0, 1, 2] {{.*}} -> tensor<6x4x40x64xf32>
// CHECK:       %[[B:.*]] = autopar.broadcast %[[V]] dims [0, 2, 3] {{.*}} -> tensor<6x4x40x64xf32>
// CHECK:       %[[T:.*]] = autopar.binary mul %[[A]], %[[B]]
// CHECK:       %[[S:.*]] = autopar.reduce sum %[[T]] dims [2] {autopar.rows_of_batch} {{.*}} -> tensor<6x4x64xf32>
// CHECK:       return %[[S]]
func.func @values(%p: tensor<6x4x40xf32>, %v: tensor<6x40x64xf32>) -> tensor<6x4x64xf32> {
  %y = autopar.dot_general %p, %v batch [0] x [0] contract [2] x [1] : (tensor<6x4x40xf32>, tensor<6x40x64xf32>) -> tensor<6x4x64xf32>
  return %y : tensor<6x4x64xf32>
}

// -----

// Rows of two dimensions are one; a batch that is not in front of the matrices stands behind the rows.

// CHECK-LABEL: func.func @behind
// CHECK:       %[[R:.*]] = autopar.transpose %arg0 permutation [1, 2, 3, 0] {{.*}} -> tensor<2x2x8x6xf32>
// CHECK:       %[[Q:.*]] = autopar.reshape %[[R]] {{.*}} -> tensor<4x8x6xf32>
// CHECK:       %[[A:.*]] = autopar.broadcast %[[Q]] dims [0, 2, 3] {{.*}} -> tensor<4x40x8x6xf32>
// CHECK:       %[[S:.*]] = autopar.reduce sum %{{.*}} dims [2] {autopar.rows_of_batch} {{.*}} -> tensor<4x40x6xf32>
// CHECK:       autopar.transpose %[[S]] permutation [2, 0, 1] {{.*}} -> tensor<6x4x40xf32>
func.func @behind(%q: tensor<6x2x2x8xf32>, %k: tensor<40x8x6xf32>) -> tensor<6x2x2x40xf32> {
  %s = autopar.dot_general %q, %k batch [0] x [2] contract [3] x [1] : (tensor<6x2x2x8xf32>, tensor<40x8x6xf32>) -> tensor<6x2x2x40xf32>
  return %s : tensor<6x2x2x40xf32>
}

// -----

// Of more rows it stays a call.

// CHECK-LABEL: func.func @many
// CHECK:       autopar.dot_general
func.func @many(%q: tensor<6x5x64xbf16>, %k: tensor<6x40x64xbf16>) -> tensor<6x5x40xbf16> {
  %s = autopar.dot_general %q, %k batch [0] x [0] contract [2] x [2] : (tensor<6x5x64xbf16>, tensor<6x40x64xbf16>) -> tensor<6x5x40xbf16>
  return %s : tensor<6x5x40xbf16>
}
