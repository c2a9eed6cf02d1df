// RUN: autopar-opt %s -split-input-file --autopar-mask-padding | FileCheck %s

// A sum along the extent leaves out what stands behind its end.
// CHECK-LABEL: func.func @sum
// CHECK-SAME: %[[X:.*]]: tensor<8x4xf32> {{.*}}, %[[MISSING:.*]]: tensor<i64> {autopar.missing = "n", autopar.name = "missing n"}
// CHECK: %[[END:.*]] = autopar.binary sub %{{.*}}, %[[MISSING]]
// CHECK: %[[INSIDE:.*]] = autopar.compare lt %{{.*}}, %{{.*}} {{.*}} : (tensor<8xi64>
// CHECK: %[[MASK:.*]] = autopar.broadcast %[[INSIDE]] dims [0] {{.*}} : tensor<8xi1> -> tensor<8x4xi1>
// CHECK: %[[MASKED:.*]] = autopar.select %[[MASK]], %[[X]], %{{.*}} {{.*}} : (tensor<8x4xi1>
// CHECK: autopar.reduce sum %[[MASKED]] dims [0]
func.func @sum(%x: tensor<8x4xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 1}]}) -> tensor<4xf32> {
  %0 = autopar.reduce sum %x dims [0] {autopar.id = "sum"} : tensor<8x4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// What is computed position by position stays as it is, and its result varies.
// CHECK-LABEL: func.func @rows
// CHECK-SAME: -> (tensor<4x8xf32> {autopar.varying = [{dim = 1 : i64, extent = "n", least = 3 : i64}]})
// CHECK-NOT: autopar.select
func.func @rows(%x: tensor<8x4xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 3}]}) -> tensor<4x8xf32> {
  %0 = autopar.unary exp %x {autopar.id = "exp"} : tensor<8x4xf32>
  %1 = autopar.transpose %0 permutation [1, 0] {autopar.id = "t"} : tensor<8x4xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// Weights behind the end are zero, so that only the values that they multiply are masked.
// CHECK-LABEL: func.func @weights
// CHECK: %[[SCORES:.*]] = autopar.select
// CHECK: %[[WEIGHTS:.*]] = autopar.softmax %[[SCORES]] dim 1
// CHECK: %[[VALUES:.*]] = autopar.select
// CHECK: autopar.dot_general %[[WEIGHTS]], %[[VALUES]] contract [1] x [0]
func.func @weights(%x: tensor<4x8xf32> {autopar.name = "x", autopar.varying = [{dim = 1, extent = "n", least = 1}]},
                   %v: tensor<8x4xf32> {autopar.name = "v", autopar.varying = [{dim = 0, extent = "n", least = 1}]}) -> tensor<4x4xf32> {
  %0 = autopar.softmax %x dim 1 {autopar.id = "softmax"} : tensor<4x8xf32>
  %1 = autopar.dot_general %0, %v contract [1] x [0] {autopar.id = "product"} : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// -----

// A triangle hides from each row what stands behind the end.
// CHECK-LABEL: func.func @triangle
// CHECK: %[[SEEN:.*]] = autopar.select
// CHECK-NEXT: autopar.softmax %[[SEEN]]
func.func @triangle(%x: tensor<3x3xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 1}, {dim = 1, extent = "n", least = 1}]}) -> tensor<3x3xf32> {
  %seen = autopar.constant {autopar.id = "seen"} dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %least = autopar.constant {autopar.id = "least"} dense<0xFF800000> : tensor<3x3xf32>
  %0 = autopar.select %seen, %x, %least {autopar.id = "hidden"} : (tensor<3x3xi1>, tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  %1 = autopar.softmax %0 dim 1 {autopar.id = "softmax"} : tensor<3x3xf32>
  return %1 : tensor<3x3xf32>
}

// -----

// A slice that moves with the end gathers its positions.
// CHECK-LABEL: func.func @last
// CHECK-SAME: , %[[MISSING:[a-z0-9]+]]: tensor<i64> {autopar.missing = "n"
// CHECK: %[[BEGIN:.*]] = autopar.binary sub %{{.*}}, %[[MISSING]]
// CHECK: autopar.gather %{{.*}} dims [0] batch 0 {autopar.id = "last"} : (tensor<8x4xf32>, tensor<1x1xi64>) -> tensor<1x4xf32>
func.func @last(%x: tensor<8x4xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 1}]}) -> tensor<1x4xf32> {
  %0 = autopar.slice %x starts [7, 0] steps [1, 1] {autopar.id = "last", autopar.moves = [{dim = 0, extent = "n"}]} : tensor<8x4xf32> -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}
