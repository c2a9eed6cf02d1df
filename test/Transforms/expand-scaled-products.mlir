// RUN: autopar-opt %s --autopar-expand-scaled-products | FileCheck %s

// Rows are scaled by powers of two and rounded; the sum is divided by those of its row and column. The weight is laid in
// rows first. The second product shares the rows of x.
// CHECK-LABEL: func.func @rows
// CHECK: %[[WIDE:.*]] = autopar.cast %arg0 {autopar.id = "a/scaled/lhs/wide"} : tensor<2x32x64xbf16> -> tensor<2x32x64xf32>
// CHECK: %[[SIZES:.*]] = autopar.unary abs %[[WIDE]]
// CHECK: autopar.reduce max %[[SIZES]] dims [2] {{.*}} -> tensor<2x32xf32>
// CHECK: %[[INVERSE:.*]] = autopar.binary sub {{.*}} {autopar.id = "a/scaled/lhs/inverse.bits"} : tensor<2x32xi32>
// CHECK: %[[SCALED:.*]] = autopar.binary mul %[[WIDE]], {{.*}} {autopar.id = "a/scaled/lhs/scaled"}
// CHECK: %[[X:.*]] = autopar.cast overflows %[[SCALED]] {{.*}} -> tensor<2x32x64xf8E4M3FN>
// CHECK: %[[BY:.*]] = autopar.bitcast %[[INVERSE]] {{.*}} : tensor<2x32xi32> -> tensor<2x32xf32>
// CHECK: autopar.transpose %arg1 permutation [1, 0] {{.*}} -> tensor<16x64xbf16>
// CHECK: %[[W:.*]] = autopar.cast overflows %{{.*}} {autopar.id = "a/scaled/rhs/rounded"} : tensor<16x64xf32> -> tensor<16x64xf8E4M3FN>
// CHECK: %[[SUMS:.*]] = autopar.dot_general %[[X]], %[[W]] contract [2] x [1] {autopar.id = "a/scaled/sums"} : {{.*}} -> tensor<2x32x16xbf16>
// CHECK: autopar.broadcast %[[BY]] dims [0, 1] {{.*}} -> tensor<2x32x16xf32>
// CHECK: %[[BYLHS:.*]] = autopar.binary mul {{.*}} {autopar.id = "a/scaled/by.lhs"}
// CHECK: autopar.broadcast {{.*}} dims [2] {{.*}} : tensor<16xf32> -> tensor<2x32x16xf32>
// CHECK: %[[BYRHS:.*]] = autopar.binary mul %[[BYLHS]], {{.*}}
// CHECK: %[[A:.*]] = autopar.cast %[[BYRHS]] {autopar.id = "a"} : tensor<2x32x16xf32> -> tensor<2x32x16xbf16>
// CHECK-NOT: autopar.reduce max {{.*}} -> tensor<2x32xf32>
// CHECK: autopar.dot_general %[[X]], %{{.*}} contract [2] x [1] {autopar.id = "b/scaled/sums"}
// CHECK: return %[[A]]
func.func @rows(%x: tensor<2x32x64xbf16>, %w: tensor<64x16xbf16>, %v: tensor<48x64xbf16>) -> (tensor<2x32x16xbf16>, tensor<2x32x48xbf16>) {
  %a = autopar.dot_general %x, %w contract [2] x [0] scaled_to f8E4M3FN {autopar.id = "a"} : (tensor<2x32x64xbf16>, tensor<64x16xbf16>) -> tensor<2x32x16xbf16>
  %b = autopar.dot_general %x, %v contract [2] x [1] scaled_to f8E4M3FN {autopar.id = "b"} : (tensor<2x32x64xbf16>, tensor<48x64xbf16>) -> tensor<2x32x48xbf16>
  return %a, %b : tensor<2x32x16xbf16>, tensor<2x32x48xbf16>
}

// A batch of matrices: columns are those of the right side within it.
// CHECK-LABEL: func.func @batch
// CHECK: autopar.dot_general {{.*}} batch [0] x [0] contract [2] x [2]
// CHECK: autopar.broadcast {{.*}} dims [0, 1] {{.*}} : tensor<3x8xf32> -> tensor<3x8x16xf32>
// CHECK: autopar.broadcast {{.*}} dims [0, 2] {{.*}} : tensor<3x16xf32> -> tensor<3x8x16xf32>
func.func @batch(%x: tensor<3x8x32xf32>, %w: tensor<3x32x16xf32>) -> tensor<3x8x16xf32> {
  %a = autopar.dot_general %x, %w batch [0] x [0] contract [2] x [1] scaled_to f8E4M3FN {autopar.id = "a"} : (tensor<3x8x32xf32>, tensor<3x32x16xf32>) -> tensor<3x8x16xf32>
  return %a : tensor<3x8x16xf32>
}

// What is computed again is so with all that it is made of.
// CHECK-LABEL: func.func @again
// CHECK-SAME: autopar.recompute = ["a", {{.*}}"a/scaled/lhs/rounded"{{.*}}"a/scaled/sums"
func.func @again(%x: tensor<32x64xbf16>, %w: tensor<16x64xbf16>) -> tensor<32x16xbf16> attributes {autopar.recompute = ["a"]} {
  %a = autopar.dot_general %x, %w contract [1] x [1] scaled_to f8E4M3FN {autopar.id = "a"} : (tensor<32x64xbf16>, tensor<16x64xbf16>) -> tensor<32x16xbf16>
  return %a : tensor<32x16xbf16>
}
