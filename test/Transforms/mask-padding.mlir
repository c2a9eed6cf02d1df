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

// -----

// A window that reaches behind the end finds zeros there, by one mask of both dimensions; its places
// are fewer by the stride.
// CHECK-LABEL: func.func @window
// CHECK-SAME: -> (tensor<1x1x4x8xf32> {autopar.varying = [{dim = 2 : i64, extent = "h", least = 1 : i64}, {dim = 3 : i64, extent = "w", least = 2 : i64, step = 2 : i64}]})
// CHECK: %[[INSIDE:.*]] = autopar.binary and %{{.*}}, %{{.*}} : tensor<8x8xi1>
// CHECK: %[[MASK:.*]] = autopar.broadcast %[[INSIDE]] dims [2, 3] {{.*}} : tensor<8x8xi1> -> tensor<1x1x8x8xi1>
// CHECK: %[[MASKED:.*]] = autopar.select %[[MASK]], %{{.*}}, %{{.*}}
// CHECK-NEXT: autopar.convolution %[[MASKED]]
func.func @window(%x: tensor<1x1x8x8xf32> {autopar.name = "x", autopar.varying = [{dim = 2, extent = "h", least = 2, step = 2}, {dim = 3, extent = "w", least = 2, step = 2}]},
                  %w: tensor<1x1x3x3xf32> {autopar.name = "w"}) -> tensor<1x1x4x8xf32> {
  %0 = autopar.convolution %x, %w {autopar.id = "conv", filterDilation = array<i64: 1, 1>, groups = 1 : i64, inputDilation = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, strides = array<i64: 2, 1>} : (tensor<1x1x8x8xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x4x8xf32>
  return %0 : tensor<1x1x4x8xf32>
}

// -----

// No window of a convolution without pads reaches behind the end.
// CHECK-LABEL: func.func @inside
// CHECK-NOT: autopar.select
func.func @inside(%x: tensor<1x1x8xf32> {autopar.name = "x", autopar.varying = [{dim = 2, extent = "n", least = 4}]}, %w: tensor<1x1x3xf32> {autopar.name = "w"}) -> tensor<1x1x6xf32> {
  %0 = autopar.convolution %x, %w {autopar.id = "conv", filterDilation = array<i64: 1>, groups = 1 : i64, inputDilation = array<i64: 1>, padBegin = array<i64: 0>, padEnd = array<i64: 0>, strides = array<i64: 1>} : (tensor<1x1x8xf32>, tensor<1x1x3xf32>) -> tensor<1x1x6xf32>
  return %0 : tensor<1x1x6xf32>
}

// -----

// Statistics are those of the positions that there are.
// CHECK-LABEL: func.func @normalized
// CHECK: %[[COUNT:.*]] = autopar.binary mul
// CHECK: autopar.reduce sum %{{.*}} dims [1]
// CHECK: autopar.binary div
// CHECK-NOT: autopar.normalize
// CHECK: autopar.binary mul %{{.*}}, %{{.*}} {autopar.id = "norm"}
// CHECK-NEXT: return
func.func @normalized(%x: tensor<4x8xf32> {autopar.name = "x", autopar.varying = [{dim = 1, extent = "n", least = 1}]}) -> tensor<4x8xf32> {
  %0 = autopar.normalize %x dims [1] epsilon 1.0e-05 {autopar.id = "norm"} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// A number that two extents decide is computed by their product; positions stay in front of the end.
// CHECK-LABEL: func.func @numbers
// CHECK: autopar.binary div
// CHECK: %[[LAST:.*]] = autopar.broadcast %{{.*}} dims [] {autopar.id = "at/last.2"}
// CHECK: autopar.binary min %{{.*}}, %[[LAST]]
func.func @numbers(%x: tensor<4x8xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "h", least = 1}, {dim = 1, extent = "w", least = 1}]}) -> (tensor<f32>, tensor<4x16xf32>) {
  %area = autopar.constant {autopar.id = "area", autopar.decides = [{extent = "h", most = 4, step = 1, rule = "inverse"}, {extent = "w", most = 8, step = 1, rule = "inverse"}]} dense<0.03125> : tensor<f32>
  %at = autopar.constant {autopar.id = "at", autopar.clamped = {extent = "w", most = 7, step = 1}, autopar.varies = [{dim = 0, extent = "w", result = 0, times = 2}]} dense<[[0], [0], [1], [1], [2], [2], [3], [3], [4], [4], [5], [5], [6], [6], [7], [7]]> : tensor<16x1xi64>
  %0 = autopar.reduce sum %x dims [0, 1] {autopar.id = "sum"} : tensor<4x8xf32> -> tensor<f32>
  %1 = autopar.binary mul %0, %area {autopar.id = "mean"} : tensor<f32>
  %2 = autopar.gather %x, %at dims [1] batch 0 {autopar.id = "wide", autopar.varies = [{dim = 0, extent = "h", result = 0, times = 1}, {dim = 1, extent = "w", result = 0, times = 2}]} : (tensor<4x8xf32>, tensor<16x1xi64>) -> tensor<4x16xf32>
  return %1, %2 : tensor<f32>, tensor<4x16xf32>
}

// -----

// What stands in the last places of a constant stands at the end.
// CHECK-LABEL: func.func @ends
// CHECK-SAME: , %[[MISSING:[a-z0-9]+]]: tensor<i64> {autopar.missing = "n"
// CHECK: %[[BEGIN:.*]] = autopar.binary sub %{{.*}}, %[[MISSING]]
// CHECK: %[[AT_END:.*]] = autopar.compare ge
// CHECK: %[[FROM:.*]] = autopar.select %[[AT_END]]
// CHECK: %[[COUNTS:.*]] = autopar.gather %{{.*}}, %[[FROM]] dims [0]
// CHECK: autopar.binary div %{{.*}}, %[[COUNTS]]
func.func @ends(%x: tensor<6xf32> {autopar.name = "x", autopar.varying = [{dim = 0, extent = "n", least = 3}]}) -> tensor<6xf32> {
  %counts = autopar.constant {autopar.id = "counts", autopar.ends = [{extent = "n", dim = 0, step = 1, tail = 1, less = 0}], autopar.varies = [{dim = 0, extent = "n", result = 0, times = 1}]} dense<[2.0, 3.0, 3.0, 3.0, 3.0, 2.0]> : tensor<6xf32>
  %0 = autopar.binary div %x, %counts {autopar.id = "means"} : tensor<6xf32>
  return %0 : tensor<6xf32>
}
