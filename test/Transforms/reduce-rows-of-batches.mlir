// RUN: autopar-opt %s --autopar-reduce-few-rows=rows-of-batch=1 --split-input-file | FileCheck %s

// A row that meets a matrix of its own is multiplied so where a target asks for it. What the
// matrices have side by side stays where it is.

// CHECK-LABEL: func.func @scores
// CHECK-SAME:  %[[Q:.*]]: tensor<2x3x1x64xbf16>, %[[K:.*]]: tensor<2x3x40x64xbf16>
// CHECK:       %[[R:.*]] = autopar.transpose {{.*}} -> tensor<1x2x3x64xbf16>
// CHECK:       %[[QF:.*]] = autopar.cast %[[R]] {{.*}} -> tensor<1x2x3x64xf32>
// CHECK:       %[[A:.*]] = autopar.broadcast %[[QF]] dims [0, 1, 2, 4] {{.*}} -> tensor<1x2x3x40x64xf32>
// CHECK:       %[[P:.*]] = autopar.binary mul %[[A]]
// CHECK:       %[[S:.*]] = autopar.reduce sum %[[P]] dims [4] {autopar.id = "s", autopar.rows_of_batch}
// CHECK:       autopar.cast %[[S]]
// CHECK:       return {{.*}} tensor<2x3x1x40xbf16>
func.func @scores(%q: tensor<2x3x1x64xbf16>, %k: tensor<2x3x40x64xbf16>) -> tensor<2x3x1x40xbf16> {
  %s = autopar.dot_general %q, %k batch [0, 1] x [0, 1] contract [3] x [3] {autopar.id = "s"} : (tensor<2x3x1x64xbf16>, tensor<2x3x40x64xbf16>) -> tensor<2x3x1x40xbf16>
  return %s : tensor<2x3x1x40xbf16>
}

// -----

// Two rows share a matrix: a call.

// CHECK-LABEL: func.func @shared
// CHECK:       autopar.dot_general
func.func @shared(%q: tensor<6x2x64xbf16>, %k: tensor<6x40x64xbf16>) -> tensor<6x2x40xbf16> {
  %s = autopar.dot_general %q, %k batch [0] x [0] contract [2] x [2] : (tensor<6x2x64xbf16>, tensor<6x40x64xbf16>) -> tensor<6x2x40xbf16>
  return %s : tensor<6x2x40xbf16>
}
