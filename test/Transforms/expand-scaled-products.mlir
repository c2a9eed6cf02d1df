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

// Parameters that are gathered for such products alone are rounded before. A part of each row needs the largest number of all; of whole rows,
// what divides the sums is gathered too. Gathers run when those that they replace did.
// CHECK-LABEL: func.func @gathered
// CHECK: %[[LARGEST:.*]] = autopar.reduce max {{.*}} dims [1] {autopar.id = "a/scaled/rhs/largest"} : {{.*}} -> tensor<16xf32>
// CHECK: autopar.all_reduce max %[[LARGEST]] over @mesh ["d"] {autopar.id = "a/scaled/rhs/of.all"}
// CHECK: %[[PART:.*]] = autopar.cast overflows {{.*}} -> tensor<16x32xf8E4M3FN>
// CHECK: %[[WHOLE:.*]] = autopar.all_gather %[[PART]] dim 1 over @mesh ["d"] {autopar.each_micro_batch, autopar.id = "a/scaled/rhs/gathered"} : tensor<16x32xf8E4M3FN> -> tensor<16x64xf8E4M3FN>
// CHECK: autopar.dot_general {{.*}}, %[[WHOLE]] contract [1] x [1] {autopar.id = "a/scaled/sums"}
// CHECK-NOT: autopar.all_reduce
// CHECK: %[[ROWS:.*]] = autopar.all_gather {{.*}} dim 0 over @mesh ["d"] {autopar.each_micro_batch, autopar.id = "b/scaled/rhs/gathered"} : tensor<32x16xf8E4M3FN> -> tensor<64x16xf8E4M3FN>
// CHECK: %[[INVERSE:.*]] = autopar.all_gather {{.*}} dim 0 over @mesh ["d"] {autopar.each_micro_batch, autopar.id = "b/scaled/rhs/inverse.gathered"} : tensor<32xf32> -> tensor<64xf32>
// CHECK: autopar.dot_general {{.*}}, %[[ROWS]] contract [1] x [1] {autopar.id = "b/scaled/sums"}
// CHECK: autopar.broadcast %[[INVERSE]] dims [1]
// CHECK-NOT: autopar.all_gather %arg2
autopar.mesh @mesh ["d" = 2]
func.func @gathered(%x: tensor<32x64xbf16>, %y: tensor<32x16xbf16>, %w: tensor<32x16xbf16> {autopar.origin = @w}) -> (tensor<32x16xbf16>, tensor<32x64xbf16>) {
  %all = autopar.all_gather %w dim 0 over @mesh ["d"] {autopar.each_micro_batch} : tensor<32x16xbf16> -> tensor<64x16xbf16>
  %a = autopar.dot_general %x, %all contract [1] x [0] scaled_to f8E4M3FN {autopar.id = "a"} : (tensor<32x64xbf16>, tensor<64x16xbf16>) -> tensor<32x16xbf16>
  %b = autopar.dot_general %y, %all contract [1] x [1] scaled_to f8E4M3FN {autopar.id = "b"} : (tensor<32x16xbf16>, tensor<64x16xbf16>) -> tensor<32x64xbf16>
  return %a, %b : tensor<32x16xbf16>, tensor<32x64xbf16>
}

// Others read what is gathered: it is rounded behind. So are activations.
// CHECK-LABEL: func.func @shared
// CHECK: autopar.all_gather %arg1 dim 0 over @mesh ["d"] : tensor<8x64xbf16> -> tensor<16x64xbf16>
// CHECK-NOT: autopar.all_gather
// CHECK-LABEL: func.func @activation
// CHECK: autopar.all_gather %arg0
func.func @shared(%x: tensor<32x64xbf16>, %w: tensor<8x64xbf16> {autopar.origin = @w}) -> (tensor<32x16xbf16>, tensor<16x64xbf16>) {
  %all = autopar.all_gather %w dim 0 over @mesh ["d"] : tensor<8x64xbf16> -> tensor<16x64xbf16>
  %a = autopar.dot_general %x, %all contract [1] x [1] scaled_to f8E4M3FN {autopar.id = "a"} : (tensor<32x64xbf16>, tensor<16x64xbf16>) -> tensor<32x16xbf16>
  return %a, %all : tensor<32x16xbf16>, tensor<16x64xbf16>
}

func.func @activation(%x: tensor<16x64xbf16>, %w: tensor<8x64xbf16> {autopar.origin = @w}) -> tensor<32x8xbf16> {
  %all = autopar.all_gather %x dim 0 over @mesh ["d"] : tensor<16x64xbf16> -> tensor<32x64xbf16>
  %a = autopar.dot_general %all, %w contract [1] x [1] scaled_to f8E4M3FN {autopar.id = "a"} : (tensor<32x64xbf16>, tensor<8x64xbf16>) -> tensor<32x8xbf16>
  return %a : tensor<32x8xbf16>
}

// Of joined products the sums are divided by who reads a part.
// CHECK-LABEL: func.func @parts
// CHECK: %[[SUMS:.*]] = autopar.dot_general {{.*}} {autopar.id = "a/scaled/sums"} : {{.*}} -> tensor<3x8x16xbf16>
// CHECK: autopar.slice %[[SUMS]] starts [0, 0, 0] steps [1, 1, 1] {autopar.id = "left/scaled/sums"} : {{.*}} -> tensor<3x8x4xbf16>
// CHECK: autopar.slice %{{.*}} starts [0, 0] steps [1, 1] {autopar.id = "left/scaled/inverses"} : tensor<3x16xf32> -> tensor<3x4xf32>
// CHECK: autopar.cast {{.*}} {autopar.id = "left"} : tensor<3x8x4xf32> -> tensor<3x8x4xbf16>
// CHECK: autopar.slice %[[SUMS]] starts [0, 0, 4]
// CHECK: autopar.slice %{{.*}} starts [0, 4] steps [1, 1] {autopar.id = "right/scaled/inverses"} : tensor<3x16xf32> -> tensor<3x12xf32>
// CHECK-NOT: autopar.slice
func.func @parts(%x: tensor<3x8x32xbf16>, %w: tensor<3x32x16xbf16>) -> (tensor<3x8x4xbf16>, tensor<3x8x12xbf16>) {
  %a = autopar.dot_general %x, %w batch [0] x [0] contract [2] x [1] scaled_to f8E4M3FN {autopar.id = "a"} : (tensor<3x8x32xbf16>, tensor<3x32x16xbf16>) -> tensor<3x8x16xbf16>
  %left = autopar.slice %a starts [0, 0, 0] steps [1, 1, 1] {autopar.id = "left"} : tensor<3x8x16xbf16> -> tensor<3x8x4xbf16>
  %right = autopar.slice %a starts [0, 0, 4] steps [1, 1, 1] {autopar.id = "right"} : tensor<3x8x16xbf16> -> tensor<3x8x12xbf16>
  return %left, %right : tensor<3x8x4xbf16>, tensor<3x8x12xbf16>
}
