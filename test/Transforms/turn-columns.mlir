// RUN: autopar-opt %s --autopar-turn-columns --split-input-file | FileCheck %s

// The sides change places; the column's dimension of one element is where the rows' was.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  %[[X:.*]]: tensor<512x64xf32>, %[[W:.*]]: tensor<64x1xf32>
// CHECK:       %[[R:.*]] = autopar.dot_general %[[W]], %[[X]] contract [0] x [1] {autopar.id = "y"} : (tensor<64x1xf32>, tensor<512x64xf32>) -> tensor<1x512xf32>
// CHECK:       autopar.reshape %[[R]] {autopar.id = "y/columns"} : tensor<1x512xf32> -> tensor<512x1xf32>
func.func @main(%x: tensor<512x64xf32>, %w: tensor<64x1xf32>) -> tensor<512x1xf32> {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "y"} : (tensor<512x64xf32>, tensor<64x1xf32>) -> tensor<512x1xf32>
  return %y : tensor<512x1xf32>
}

// -----

// Without such a dimension, and in a batch, the shape stays.

// CHECK-LABEL: func.func @batch
// CHECK-SAME:  %[[X:.*]]: tensor<4x512x64xf32>, %[[W:.*]]: tensor<4x64xf32>
// CHECK-NEXT:  autopar.dot_general %[[W]], %[[X]] batch [0] x [0] contract [1] x [2] {autopar.id = "y"} : (tensor<4x64xf32>, tensor<4x512x64xf32>) -> tensor<4x512xf32>
// CHECK-NEXT:  return
func.func @batch(%x: tensor<4x512x64xf32>, %w: tensor<4x64xf32>) -> tensor<4x512xf32> {
  %y = autopar.dot_general %x, %w batch [0] x [0] contract [2] x [1] {autopar.id = "y"} : (tensor<4x512x64xf32>, tensor<4x64xf32>) -> tensor<4x512xf32>
  return %y : tensor<4x512xf32>
}

// -----

// More columns stay, and one row does.

// CHECK-LABEL: func.func @stay
// CHECK:       autopar.dot_general %{{.*}}, %{{.*}} contract [1] x [0] {{.*}} -> tensor<512x2xf32>
// CHECK:       autopar.dot_general %{{.*}}, %{{.*}} contract [1] x [0] {{.*}} -> tensor<1x1xf32>
func.func @stay(%x: tensor<512x64xf32>, %w: tensor<64x2xf32>, %a: tensor<1x64xf32>, %b: tensor<64x1xf32>)
    -> (tensor<512x2xf32>, tensor<1x1xf32>) {
  %y = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "y"} : (tensor<512x64xf32>, tensor<64x2xf32>) -> tensor<512x2xf32>
  %z = autopar.dot_general %a, %b contract [1] x [0] {autopar.id = "z"} : (tensor<1x64xf32>, tensor<64x1xf32>) -> tensor<1x1xf32>
  return %y, %z : tensor<512x2xf32>, tensor<1x1xf32>
}
