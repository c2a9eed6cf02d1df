// RUN: autopar-opt %s --autopar-batch-sliced-products --split-input-file | FileCheck %s

// Steps of a recurrence, the last one first, and of each without its dimension of one element: one product of all of them.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  %[[X:.*]]: tensor<6x2x64xf32>{{.*}}, %[[W:.*]]: tensor<64x256xf32>
// CHECK-NOT:   autopar.slice %[[X]] starts [3
// CHECK:       %[[STEPS:.*]] = autopar.slice %[[X]] starts [1, 0, 0] steps [1, 1, 1] {autopar.id = "y4/all.steps"} : tensor<6x2x64xf32> -> tensor<4x2x64xf32>
// CHECK:       %[[ALL:.*]] = autopar.dot_general %[[STEPS]], %[[W]] contract [2] x [0] {autopar.id = "y4/of.all.steps"} : {{.*}} -> tensor<4x2x256xf32>
// CHECK:       %[[Y4:.*]] = autopar.slice %[[ALL]] starts [3, 0, 0] steps [1, 1, 1] {autopar.id = "y4"} : tensor<4x2x256xf32> -> tensor<1x2x256xf32>
// CHECK:       %[[Y3:.*]] = autopar.slice %[[ALL]] starts [2, 0, 0] steps [1, 1, 1] {autopar.id = "y3"}
// CHECK:       %[[STEP:.*]] = autopar.slice %[[ALL]] starts [1, 0, 0] steps [1, 1, 1] {autopar.id = "y2/step"}
// CHECK:       %[[Y2:.*]] = autopar.reshape %[[STEP]] {autopar.id = "y2"} : tensor<1x2x256xf32> -> tensor<2x256xf32>
// CHECK:       autopar.slice %[[ALL]] starts [0, 0, 0] steps [1, 1, 1] {autopar.id = "y1/step"}
// CHECK-NOT:   autopar.dot_general
// CHECK:       return %[[Y4]], %[[Y3]], %[[Y2]]
func.func @main(%x: tensor<6x2x64xf32>, %w: tensor<64x256xf32>)
    -> (tensor<1x2x256xf32>, tensor<1x2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>) {
  %x4 = autopar.slice %x starts [4, 0, 0] steps [1, 1, 1] {autopar.id = "x4"} : tensor<6x2x64xf32> -> tensor<1x2x64xf32>
  %y4 = autopar.dot_general %x4, %w contract [2] x [0] {autopar.id = "y4"} : (tensor<1x2x64xf32>, tensor<64x256xf32>) -> tensor<1x2x256xf32>
  %x3 = autopar.slice %x starts [3, 0, 0] steps [1, 1, 1] {autopar.id = "x3"} : tensor<6x2x64xf32> -> tensor<1x2x64xf32>
  %y3 = autopar.dot_general %x3, %w contract [2] x [0] {autopar.id = "y3"} : (tensor<1x2x64xf32>, tensor<64x256xf32>) -> tensor<1x2x256xf32>
  %x2 = autopar.slice %x starts [2, 0, 0] steps [1, 1, 1] {autopar.id = "x2"} : tensor<6x2x64xf32> -> tensor<1x2x64xf32>
  %r2 = autopar.reshape %x2 {autopar.id = "r2"} : tensor<1x2x64xf32> -> tensor<2x64xf32>
  %y2 = autopar.dot_general %r2, %w contract [1] x [0] {autopar.id = "y2"} : (tensor<2x64xf32>, tensor<64x256xf32>) -> tensor<2x256xf32>
  %x1 = autopar.slice %x starts [1, 0, 0] steps [1, 1, 1] {autopar.id = "x1"} : tensor<6x2x64xf32> -> tensor<1x2x64xf32>
  %r1 = autopar.reshape %x1 {autopar.id = "r1"} : tensor<1x2x64xf32> -> tensor<2x64xf32>
  %y1 = autopar.dot_general %r1, %w contract [1] x [0] {autopar.id = "y1"} : (tensor<2x64xf32>, tensor<64x256xf32>) -> tensor<2x256xf32>
  return %y4, %y3, %y2, %y1 : tensor<1x2x256xf32>, tensor<1x2x256xf32>, tensor<2x256xf32>, tensor<2x256xf32>
}

// -----

// Left alone: what is summed is sliced; parts lie apart; parts overlap; what a step reads is as large as the matrix.

// CHECK-LABEL: func.func @alone
// CHECK-COUNT-16: autopar.dot_general
// CHECK-NOT:   autopar.dot_general
func.func @alone(%x: tensor<8x2x64xf32>, %w: tensor<64x256xf32>, %v: tensor<16x1024xf32>, %b: tensor<4x64x64xf32>)
    -> (tensor<2x256xf32>, tensor<8x2x1024xf32>, tensor<64x256xf32>, tensor<1x2x256xf32>) {
  %p0 = autopar.slice %x starts [0, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<8x2x16xf32>
  %p1 = autopar.slice %x starts [0, 0, 16] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<8x2x16xf32>
  %p2 = autopar.slice %x starts [0, 0, 32] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<8x2x16xf32>
  %p3 = autopar.slice %x starts [0, 0, 48] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<8x2x16xf32>
  %q0 = autopar.dot_general %p0, %v contract [2] x [0] : (tensor<8x2x16xf32>, tensor<16x1024xf32>) -> tensor<8x2x1024xf32>
  %q1 = autopar.dot_general %p1, %v contract [2] x [0] : (tensor<8x2x16xf32>, tensor<16x1024xf32>) -> tensor<8x2x1024xf32>
  %q2 = autopar.dot_general %p2, %v contract [2] x [0] : (tensor<8x2x16xf32>, tensor<16x1024xf32>) -> tensor<8x2x1024xf32>
  %q3 = autopar.dot_general %p3, %v contract [2] x [0] : (tensor<8x2x16xf32>, tensor<16x1024xf32>) -> tensor<8x2x1024xf32>
  %q01 = autopar.binary add %q0, %q1 : tensor<8x2x1024xf32>
  %q23 = autopar.binary add %q2, %q3 : tensor<8x2x1024xf32>
  %q = autopar.binary add %q01, %q23 : tensor<8x2x1024xf32>
  %x0 = autopar.slice %x starts [0, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<1x2x64xf32>
  %x2 = autopar.slice %x starts [2, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<1x2x64xf32>
  %x4 = autopar.slice %x starts [4, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<1x2x64xf32>
  %x6 = autopar.slice %x starts [6, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<1x2x64xf32>
  %y0 = autopar.dot_general %x0, %w contract [2] x [0] : (tensor<1x2x64xf32>, tensor<64x256xf32>) -> tensor<1x2x256xf32>
  %y2 = autopar.dot_general %x2, %w contract [2] x [0] : (tensor<1x2x64xf32>, tensor<64x256xf32>) -> tensor<1x2x256xf32>
  %y4 = autopar.dot_general %x4, %w contract [2] x [0] : (tensor<1x2x64xf32>, tensor<64x256xf32>) -> tensor<1x2x256xf32>
  %y6 = autopar.dot_general %x6, %w contract [2] x [0] : (tensor<1x2x64xf32>, tensor<64x256xf32>) -> tensor<1x2x256xf32>
  %y02 = autopar.binary add %y0, %y2 : tensor<1x2x256xf32>
  %y46 = autopar.binary add %y4, %y6 : tensor<1x2x256xf32>
  %y = autopar.binary add %y02, %y46 : tensor<1x2x256xf32>
  %s = autopar.reshape %y : tensor<1x2x256xf32> -> tensor<2x256xf32>
  %z0 = autopar.slice %x starts [0, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<2x2x64xf32>
  %z1 = autopar.slice %x starts [1, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<2x2x64xf32>
  %z2 = autopar.slice %x starts [2, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<2x2x64xf32>
  %z3 = autopar.slice %x starts [3, 0, 0] steps [1, 1, 1] : tensor<8x2x64xf32> -> tensor<2x2x64xf32>
  %u0 = autopar.dot_general %z0, %w contract [2] x [0] : (tensor<2x2x64xf32>, tensor<64x256xf32>) -> tensor<2x2x256xf32>
  %u1 = autopar.dot_general %z1, %w contract [2] x [0] : (tensor<2x2x64xf32>, tensor<64x256xf32>) -> tensor<2x2x256xf32>
  %u2 = autopar.dot_general %z2, %w contract [2] x [0] : (tensor<2x2x64xf32>, tensor<64x256xf32>) -> tensor<2x2x256xf32>
  %u3 = autopar.dot_general %z3, %w contract [2] x [0] : (tensor<2x2x64xf32>, tensor<64x256xf32>) -> tensor<2x2x256xf32>
  %u01 = autopar.binary add %u0, %u1 : tensor<2x2x256xf32>
  %u23 = autopar.binary add %u2, %u3 : tensor<2x2x256xf32>
  %u = autopar.binary add %u01, %u23 : tensor<2x2x256xf32>
  %t = autopar.slice %u starts [0, 0, 0] steps [1, 1, 1] : tensor<2x2x256xf32> -> tensor<1x2x256xf32>
  %b0 = autopar.slice %b starts [0, 0, 0] steps [1, 1, 1] : tensor<4x64x64xf32> -> tensor<1x64x64xf32>
  %b1 = autopar.slice %b starts [1, 0, 0] steps [1, 1, 1] : tensor<4x64x64xf32> -> tensor<1x64x64xf32>
  %b2 = autopar.slice %b starts [2, 0, 0] steps [1, 1, 1] : tensor<4x64x64xf32> -> tensor<1x64x64xf32>
  %b3 = autopar.slice %b starts [3, 0, 0] steps [1, 1, 1] : tensor<4x64x64xf32> -> tensor<1x64x64xf32>
  %c0 = autopar.dot_general %b0, %w contract [2] x [0] : (tensor<1x64x64xf32>, tensor<64x256xf32>) -> tensor<1x64x256xf32>
  %c1 = autopar.dot_general %b1, %w contract [2] x [0] : (tensor<1x64x64xf32>, tensor<64x256xf32>) -> tensor<1x64x256xf32>
  %c2 = autopar.dot_general %b2, %w contract [2] x [0] : (tensor<1x64x64xf32>, tensor<64x256xf32>) -> tensor<1x64x256xf32>
  %c3 = autopar.dot_general %b3, %w contract [2] x [0] : (tensor<1x64x64xf32>, tensor<64x256xf32>) -> tensor<1x64x256xf32>
  %c01 = autopar.binary add %c0, %c1 : tensor<1x64x256xf32>
  %c23 = autopar.binary add %c2, %c3 : tensor<1x64x256xf32>
  %c = autopar.binary add %c01, %c23 : tensor<1x64x256xf32>
  %d = autopar.reshape %c : tensor<1x64x256xf32> -> tensor<64x256xf32>
  return %s, %q, %d, %t : tensor<2x256xf32>, tensor<8x2x1024xf32>, tensor<64x256xf32>, tensor<1x2x256xf32>
}
