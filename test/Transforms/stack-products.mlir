// RUN: autopar-opt %s --split-input-file --autopar-stack-products | FileCheck %s

// Four products of two terms, of the last step first: one product of eight terms. One stack is there
// already, of reshapes of what is multiplied.

// CHECK-LABEL: func.func @main
// CHECK-DAG: %[[A0:.*]] = autopar.reshape %arg0 : tensor<2x64xf32> -> tensor<1x2x64xf32>
// CHECK-DAG: %[[A3:.*]] = autopar.reshape %arg3 : tensor<2x64xf32> -> tensor<1x2x64xf32>
// CHECK: %[[B:.*]] = autopar.concat {{.*}} dim 0 {autopar.id = "sum/rhs"} : {{.*}} -> tensor<4x2x32xf32>
// CHECK-NOT: contract [0] x [0]
// CHECK: %[[SUM:.*]] = autopar.dot_general %[[A:.*]], %[[B]] contract [0, 1] x [0, 1] {autopar.id = "sum/product"} : (tensor<4x2x64xf32>, tensor<4x2x32xf32>) -> tensor<64x32xf32>
// CHECK-NOT: autopar.concat
// CHECK: return %[[SUM]], %[[A]]
func.func @main(%a0: tensor<2x64xf32>, %a1: tensor<2x64xf32>, %a2: tensor<2x64xf32>, %a3: tensor<2x64xf32>,
                %b0: tensor<2x32xf32>, %b1: tensor<2x32xf32>, %b2: tensor<2x32xf32>, %b3: tensor<2x32xf32>)
    -> (tensor<64x32xf32>, tensor<4x2x64xf32>) {
  %p3 = autopar.dot_general %a3, %b3 contract [0] x [0] {autopar.id = "p3"} : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %p2 = autopar.dot_general %a2, %b2 contract [0] x [0] {autopar.id = "p2"} : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %s2 = autopar.binary add %p3, %p2 {autopar.id = "sum.2"} : tensor<64x32xf32>
  %p1 = autopar.dot_general %a1, %b1 contract [0] x [0] {autopar.id = "p1"} : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %s1 = autopar.binary add %s2, %p1 {autopar.id = "sum.1"} : tensor<64x32xf32>
  %p0 = autopar.dot_general %a0, %b0 contract [0] x [0] {autopar.id = "p0"} : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %s0 = autopar.binary add %s1, %p0 {autopar.id = "sum"} : tensor<64x32xf32>
  %r0 = autopar.reshape %a0 : tensor<2x64xf32> -> tensor<1x2x64xf32>
  %r1 = autopar.reshape %a1 : tensor<2x64xf32> -> tensor<1x2x64xf32>
  %r2 = autopar.reshape %a2 : tensor<2x64xf32> -> tensor<1x2x64xf32>
  %r3 = autopar.reshape %a3 : tensor<2x64xf32> -> tensor<1x2x64xf32>
  %all = autopar.concat %r0, %r1, %r2, %r3 dim 0 {autopar.id = "all"} : (tensor<1x2x64xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>, tensor<1x2x64xf32>) -> tensor<4x2x64xf32>
  return %s0, %all : tensor<64x32xf32>, tensor<4x2x64xf32>
}

// -----

// Casts of products go into the stacked one; what else is summed is added to it.

// CHECK-LABEL: func.func @main
// CHECK: %[[PRODUCT:.*]] = autopar.dot_general {{.*}} contract [0, 1] x [0, 1] {{.*}}: (tensor<4x2x64xbf16>, tensor<4x2x32xbf16>) -> tensor<64x32xf32>
// CHECK-NEXT: %[[SUM:.*]] = autopar.binary add %arg2, %[[PRODUCT]]
// CHECK-NEXT: return %[[SUM]]
func.func @main(%a: tensor<2x64xbf16>, %b: tensor<2x32xbf16>, %c: tensor<64x32xf32>) -> tensor<64x32xf32> {
  %p0 = autopar.dot_general %a, %b contract [0] x [0] : (tensor<2x64xbf16>, tensor<2x32xbf16>) -> tensor<64x32xbf16>
  %p1 = autopar.dot_general %a, %b contract [0] x [0] : (tensor<2x64xbf16>, tensor<2x32xbf16>) -> tensor<64x32xbf16>
  %p2 = autopar.dot_general %a, %b contract [0] x [0] : (tensor<2x64xbf16>, tensor<2x32xbf16>) -> tensor<64x32xbf16>
  %p3 = autopar.dot_general %a, %b contract [0] x [0] : (tensor<2x64xbf16>, tensor<2x32xbf16>) -> tensor<64x32xbf16>
  %c0 = autopar.cast %p0 : tensor<64x32xbf16> -> tensor<64x32xf32>
  %c1 = autopar.cast %p1 : tensor<64x32xbf16> -> tensor<64x32xf32>
  %c2 = autopar.cast %p2 : tensor<64x32xbf16> -> tensor<64x32xf32>
  %c3 = autopar.cast %p3 : tensor<64x32xbf16> -> tensor<64x32xf32>
  %s0 = autopar.binary add %c0, %c1 : tensor<64x32xf32>
  %s1 = autopar.binary add %s0, %c : tensor<64x32xf32>
  %s2 = autopar.binary add %c2, %c3 : tensor<64x32xf32>
  %s3 = autopar.binary add %s1, %s2 : tensor<64x32xf32>
  return %s3 : tensor<64x32xf32>
}

// -----

// Three products stay as they are, and so do those of many terms, of which copies would be larger
// than the sum.

// CHECK-LABEL: func.func @main
// CHECK-NOT: autopar.concat
// CHECK-COUNT-7: autopar.dot_general
// CHECK-NOT: autopar.dot_general
func.func @main(%a: tensor<2x64xf32>, %b: tensor<2x32xf32>, %c: tensor<48x64xf32>, %d: tensor<48x32xf32>)
    -> (tensor<64x32xf32>, tensor<64x32xf32>) {
  %p0 = autopar.dot_general %a, %b contract [0] x [0] : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %p1 = autopar.dot_general %a, %b contract [0] x [0] : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %p2 = autopar.dot_general %a, %b contract [0] x [0] : (tensor<2x64xf32>, tensor<2x32xf32>) -> tensor<64x32xf32>
  %s0 = autopar.binary add %p0, %p1 : tensor<64x32xf32>
  %s1 = autopar.binary add %s0, %p2 : tensor<64x32xf32>
  %q0 = autopar.dot_general %c, %d contract [0] x [0] : (tensor<48x64xf32>, tensor<48x32xf32>) -> tensor<64x32xf32>
  %q1 = autopar.dot_general %c, %d contract [0] x [0] : (tensor<48x64xf32>, tensor<48x32xf32>) -> tensor<64x32xf32>
  %q2 = autopar.dot_general %c, %d contract [0] x [0] : (tensor<48x64xf32>, tensor<48x32xf32>) -> tensor<64x32xf32>
  %q3 = autopar.dot_general %c, %d contract [0] x [0] : (tensor<48x64xf32>, tensor<48x32xf32>) -> tensor<64x32xf32>
  %t0 = autopar.binary add %q0, %q1 : tensor<64x32xf32>
  %t1 = autopar.binary add %t0, %q2 : tensor<64x32xf32>
  %t2 = autopar.binary add %t1, %q3 : tensor<64x32xf32>
  return %s1, %t2 : tensor<64x32xf32>, tensor<64x32xf32>
}
