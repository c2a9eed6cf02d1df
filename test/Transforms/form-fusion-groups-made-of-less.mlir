// What is made of far less than it is, by cheap arithmetic, is computed where it is read: the one-hot
// rows of labels, which a loss and its gradient read in kernels of their own once ranks exchange sums
// between them. None of them is handed from one to the other.
// RUN: autopar-opt %s --autopar-form-fusion-groups | FileCheck %s

autopar.mesh @mesh ["tensor" = 2]

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.*]]: tensor<4x64xf32>, %[[LABELS:.*]]: tensor<4xi64>
func.func @main(%x: tensor<4x64xf32>, %labels: tensor<4xi64>) -> (tensor<4xf32>, tensor<4x64xf32>) {
  // CHECK: %[[PART:.*]] = autopar.group {{.*}}%[[X]]{{.*}} -> tensor<4xf32> {
  // CHECK: autopar.compare
  // CHECK: %[[SUM:.*]] = autopar.all_reduce sum %[[PART]]
  // CHECK: %[[GRADIENT:.*]] = autopar.group {{.*}}%[[LABELS]]{{.*}} -> tensor<4x64xf32> {
  // CHECK: autopar.cast
  // CHECK: autopar.iota
  // CHECK: autopar.compare
  // CHECK: autopar.select
  // CHECK: return %[[SUM]], %[[GRADIENT]]
  %zero = autopar.constant dense<0.0> : tensor<4x64xf32>
  %one = autopar.constant dense<1.0> : tensor<4x64xf32>
  %positions = autopar.iota dim 1 : tensor<4x64xi32>
  %narrow = autopar.cast %labels {autopar.id = "narrow"} : tensor<4xi64> -> tensor<4xi32>
  %rows = autopar.broadcast %narrow dims [0] : tensor<4xi32> -> tensor<4x64xi32>
  %isLabel = autopar.compare eq %positions, %rows {autopar.id = "compare"} : (tensor<4x64xi32>, tensor<4x64xi32>) -> tensor<4x64xi1>
  %picked = autopar.select %isLabel, %x, %zero {autopar.id = "picked"} : (tensor<4x64xi1>, tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %part = autopar.reduce sum %picked dims [1] {autopar.id = "part"} : tensor<4x64xf32> -> tensor<4xf32>
  %sum = autopar.all_reduce sum %part over @mesh ["tensor"] {autopar.id = "part/reshard"} : tensor<4xf32>
  %all = autopar.broadcast %sum dims [0] : tensor<4xf32> -> tensor<4x64xf32>
  %onehot = autopar.select %isLabel, %one, %zero {autopar.id = "onehot"} : (tensor<4x64xi1>, tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x64xf32>
  %gradient = autopar.binary sub %all, %onehot {autopar.id = "gradient"} : tensor<4x64xf32>
  return %sum, %gradient : tensor<4xf32>, tensor<4x64xf32>
}

// Positions of a mask that many more elements read each are made once.
// CHECK-LABEL: func.func @mask(
// CHECK: %[[MASK:.*]] = autopar.group {{.*}}-> tensor<64x64xi1>
func.func @mask(%x: tensor<8x64x64xf32>, %y: tensor<8x64x64xf32>) -> (tensor<8x64x64xf32>, tensor<8x64x64xf32>) {
  %none = autopar.constant dense<0.0> : tensor<8x64x64xf32>
  %rows = autopar.iota dim 0 : tensor<64x64xi32>
  %columns = autopar.iota dim 1 : tensor<64x64xi32>
  %isSeen = autopar.compare ge %rows, %columns {autopar.id = "mask"} : (tensor<64x64xi32>, tensor<64x64xi32>) -> tensor<64x64xi1>
  %seen = autopar.broadcast %isSeen dims [1, 2] : tensor<64x64xi1> -> tensor<8x64x64xi1>
  %a = autopar.select %seen, %x, %none {autopar.id = "a"} : (tensor<8x64x64xi1>, tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  %s = autopar.reduce sum %a dims [0] {autopar.id = "s"} : tensor<8x64x64xf32> -> tensor<64x64xf32>
  %t = autopar.broadcast %s dims [1, 2] : tensor<64x64xf32> -> tensor<8x64x64xf32>
  %b = autopar.select %seen, %y, %t {autopar.id = "b"} : (tensor<8x64x64xi1>, tensor<8x64x64xf32>, tensor<8x64x64xf32>) -> tensor<8x64x64xf32>
  return %a, %b : tensor<8x64x64xf32>, tensor<8x64x64xf32>
}
