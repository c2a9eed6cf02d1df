// RUN: autopar-opt %s --autopar-expand-grouped-products | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: autopar-opt %s --autopar-expand-grouped-products="target=cuda" | FileCheck %s --check-prefixes=CHECK,CUDA

// Without a library few rows are sums over the matrices that they pick; a row of no group is zero.

// CHECK-LABEL: @few
// CPU: autopar.grouped_dot
// CUDA: %[[N:.*]] = autopar.reshape %arg2 {{.*}} -> tensor<2x1xi32>
// CUDA: %[[P:.*]] = autopar.gather %arg1, %[[N]] dims [0] batch 0 {autopar.id = "y/picked"} : (tensor<4x32x16xf32>, tensor<2x1xi32>) -> tensor<2x32x16xf32>
// CUDA: %[[R:.*]] = autopar.broadcast %arg0 dims [0, 2]
// CUDA: %[[T:.*]] = autopar.binary mul %[[R]], %[[P]]
// CUDA: %[[S:.*]] = autopar.reduce sum %[[T]] dims [2]
// CUDA: %[[G:.*]] = autopar.binary and
// CUDA: %[[W:.*]] = autopar.broadcast %[[G]] dims [0]
// CUDA: autopar.select %[[W]], %[[S]]
func.func @few(%x: tensor<2x16xf32>, %w: tensor<4x32x16xf32>, %g: tensor<2xi32>) -> tensor<2x32xf32> {
  %y = autopar.grouped_dot %x, %w, %g transposed {autopar.id = "y"} : (tensor<2x16xf32>, tensor<4x32x16xf32>, tensor<2xi32>) -> tensor<2x32xf32>
  return %y : tensor<2x32xf32>
}

// So are, with one, rows of a parameter that lies along what is summed, where there are two matrices for each row: not those
// of @across or three rows.

// CPU-LABEL: @own
// CPU: autopar.gather %arg1
// CPU-NOT: autopar.grouped_dot
// CPU-LABEL: @across
// CPU: autopar.grouped_dot
// CPU-LABEL: @shared
// CPU: autopar.grouped_dot
autopar.origin @w : tensor<4x32x16xf32> in "w.onnx" at 0
func.func @own(%x: tensor<2x16xf32>, %w: tensor<4x32x16xf32> {autopar.origin = @w}, %g: tensor<2xi32>) -> tensor<2x32xf32> {
  %y = autopar.grouped_dot %x, %w, %g transposed {autopar.id = "y"} : (tensor<2x16xf32>, tensor<4x32x16xf32>, tensor<2xi32>) -> tensor<2x32xf32>
  return %y : tensor<2x32xf32>
}
autopar.origin @v : tensor<4x16x32xf32> in "w.onnx" at 0
func.func @across(%x: tensor<2x16xf32>, %w: tensor<4x16x32xf32> {autopar.origin = @v}, %g: tensor<2xi32>) -> tensor<2x32xf32> {
  %y = autopar.grouped_dot %x, %w, %g {autopar.id = "y"} : (tensor<2x16xf32>, tensor<4x16x32xf32>, tensor<2xi32>) -> tensor<2x32xf32>
  return %y : tensor<2x32xf32>
}
func.func @shared(%x: tensor<3x16xf32>, %w: tensor<4x32x16xf32> {autopar.origin = @w}, %g: tensor<3xi32>) -> tensor<3x32xf32> {
  %y = autopar.grouped_dot %x, %w, %g transposed {autopar.id = "y"} : (tensor<3x16xf32>, tensor<4x32x16xf32>, tensor<3xi32>) -> tensor<3x32xf32>
  return %y : tensor<3x32xf32>
}

// What makes all matrices of fewer bytes is done to what was picked.

// CHECK-LABEL: @made
// CHECK-NOT: autopar.cast %arg1
// CHECK: %[[B:.*]] = autopar.gather %arg1, {{.*}} : (tensor<4x16x8x2xi8>, tensor<2x1xi64>) -> tensor<2x16x8x2xi8>
// CHECK: %[[R:.*]] = autopar.reshape %[[B]] {{.*}} -> tensor<2x16x16xi8>
// CHECK: autopar.cast %[[R]] {{.*}} -> tensor<2x16x16xf32>
// CHECK-NOT: autopar.grouped_dot
// CHECK: return
func.func @made(%x: tensor<2x16xf32>, %w: tensor<4x16x8x2xi8>, %g: tensor<2xi64>) -> tensor<2x16xf32> {
  %r = autopar.reshape %w : tensor<4x16x8x2xi8> -> tensor<4x16x16xi8>
  %f = autopar.cast %r : tensor<4x16x16xi8> -> tensor<4x16x16xf32>
  %y = autopar.grouped_dot %x, %f, %g {autopar.id = "y"} : (tensor<2x16xf32>, tensor<4x16x16xf32>, tensor<2xi64>) -> tensor<2x16xf32>
  return %y : tensor<2x16xf32>
}

// More rows are the library's, and where it has none a product for each group.

// CHECK-LABEL: @many
// CPU: autopar.grouped_dot %arg0
// CPU: autopar.grouped_dot_rhs_grad %arg0
// CUDA: %[[ONE:.*]] = autopar.select {{.*}}, %arg0, {{.*}} {autopar.id = "y/grouped/0"} : {{.*}} -> tensor<40x16xf32>
// CUDA: %[[A:.*]] = autopar.dot_general %[[ONE]], {{.*}} contract [1] x [0] {autopar.id = "y/grouped/0/product"}
// CUDA: %[[TWO:.*]] = autopar.select {{.*}}, %arg0, {{.*}} {autopar.id = "y/grouped/1"}
// CUDA: %[[B:.*]] = autopar.dot_general %[[TWO]]
// CUDA: %[[Y:.*]] = autopar.binary add %[[B]], %[[A]]
// CUDA: autopar.dot_general {{.*}}, %[[Y]] contract [0] x [0] {autopar.id = "dw/grouped/0/product"}
// CUDA: autopar.dot_general {{.*}}, %[[Y]] contract [0] x [0] {autopar.id = "dw/grouped/1/product"}
// CUDA: autopar.concat {{.*}} dim 0 {autopar.id = "dw"}
func.func @many(%x: tensor<40x16xf32>, %w: tensor<2x16x32xf32>, %g: tensor<40xi64>) -> (tensor<40x32xf32>, tensor<2x16x32xf32>) {
  %y = autopar.grouped_dot %x, %w, %g {autopar.id = "y"} : (tensor<40x16xf32>, tensor<2x16x32xf32>, tensor<40xi64>) -> tensor<40x32xf32>
  %dw = autopar.grouped_dot_rhs_grad %x, %y, %g {autopar.id = "dw"} : (tensor<40x16xf32>, tensor<40x32xf32>, tensor<40xi64>) -> tensor<2x16x32xf32>
  return %y, %dw : tensor<40x32xf32>, tensor<2x16x32xf32>
}

// In parts each has its groups and rows, by the numbers that groups have there.

// CHECK-LABEL: @parts
// CPU: %[[X0:.*]] = autopar.slice %arg0 starts [0, 0, 0] {{.*}} -> tensor<1x40x16xf32>
// CPU: %[[R0:.*]] = autopar.reshape %[[X0]] {autopar.id = "y/grouped/part.0/lhs"}
// CPU: %[[W0:.*]] = autopar.slice %arg1 starts [0, 0, 0] {{.*}} -> tensor<2x16x32xf32>
// CPU: autopar.grouped_dot %[[R0]], %[[W0]], %arg2 among 4 {autopar.id = "y/grouped/part.0/product"}
// CPU: autopar.slice %arg0 starts [1, 0, 0]
// CPU: %[[G1:.*]] = autopar.binary sub %arg2, {{.*}} {autopar.id = "y/grouped/part.1/numbers"}
// CPU: %[[W1:.*]] = autopar.slice %arg1 starts [2, 0, 0]
// CPU: autopar.grouped_dot {{.*}}, %[[W1]], %[[G1]] among 4
// CPU: %[[Y:.*]] = autopar.concat {{.*}} dim 0 {autopar.id = "y"} : (tensor<1x40x32xf32>, tensor<1x40x32xf32>) -> tensor<2x40x32xf32>
// CPU: autopar.grouped_dot_rhs_grad {{.*}} among 4 {autopar.id = "dw/grouped/part.0/product"} : {{.*}} -> tensor<2x16x32xf32>
// CPU: autopar.grouped_dot_rhs_grad {{.*}}, %{{.*}}, %{{.*}} among 4 {autopar.id = "dw/grouped/part.1/product"}
// CPU: autopar.concat {{.*}} -> tensor<4x16x32xf32>
// CUDA-NOT: in_parts
func.func @parts(%x: tensor<2x40x16xf32>, %w: tensor<4x16x32xf32>, %g: tensor<40xi64>) -> (tensor<2x40x32xf32>, tensor<4x16x32xf32>) {
  %y = autopar.grouped_dot %x, %w, %g in_parts {autopar.id = "y"} : (tensor<2x40x16xf32>, tensor<4x16x32xf32>, tensor<40xi64>) -> tensor<2x40x32xf32>
  %dw = autopar.grouped_dot_rhs_grad %x, %y, %g in_parts {autopar.id = "dw"} : (tensor<2x40x16xf32>, tensor<2x40x32xf32>, tensor<40xi64>) -> tensor<4x16x32xf32>
  return %y, %dw : tensor<2x40x32xf32>, tensor<4x16x32xf32>
}

// A device's only part is its groups.

// CHECK-LABEL: @part
// CPU: %[[R:.*]] = autopar.reshape %arg0 {{.*}} -> tensor<40x16xf32>
// CPU: %[[Y:.*]] = autopar.grouped_dot %[[R]], %arg1, %arg2 among 4 {autopar.id = "y/grouped/part.0/product"}
// CPU: autopar.reshape %[[Y]] {autopar.id = "y"} : tensor<40x32xf32> -> tensor<1x40x32xf32>
func.func @part(%x: tensor<1x40x16xf32>, %w: tensor<2x16x32xf32>, %g: tensor<40xi64>) -> tensor<1x40x32xf32> {
  %y = autopar.grouped_dot %x, %w, %g in_parts among 4 {autopar.id = "y"} : (tensor<1x40x16xf32>, tensor<2x16x32xf32>, tensor<40xi64>) -> tensor<1x40x32xf32>
  return %y : tensor<1x40x32xf32>
}

// Doubles no library has.

// CHECK-LABEL: @doubles
// CHECK-NOT: autopar.grouped_dot
// CHECK: return
func.func @doubles(%x: tensor<40x16xf64>, %w: tensor<2x16x32xf64>, %g: tensor<40xi64>) -> tensor<40x32xf64> {
  %y = autopar.grouped_dot %x, %w, %g : (tensor<40x16xf64>, tensor<2x16x32xf64>, tensor<40xi64>) -> tensor<40x32xf64>
  return %y : tensor<40x32xf64>
}
