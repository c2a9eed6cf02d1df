// RUN: autopar-opt %s --autopar-form-fusion-groups | FileCheck %s

// What is computed from parameters alone runs right before it is read, so that its bytes are not held longer.
autopar.mesh @mesh ["d" = 2]

// CHECK-LABEL: func.func @main
// CHECK: autopar.dot_general
// CHECK: autopar.group {{.*}} {autopar.id = "square"}
// CHECK: %[[WHOLE:.*]] = autopar.all_gather %arg1
// CHECK-NEXT: autopar.group %{{.*}}, %[[WHOLE]] {autopar.id = "last"}
func.func @main(%x: tensor<8x16xf32>, %w: tensor<8x16xf32> {autopar.origin = "w"}, %v: tensor<16x16xf32> {autopar.origin = "v"}) -> tensor<8x16xf32> {
  %whole = autopar.all_gather %w dim 0 over @mesh ["d"] : tensor<8x16xf32> -> tensor<16x16xf32>
  %y = autopar.dot_general %x, %v contract [1] x [0] : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  %z = autopar.reduce sum %y dims [0] {autopar.id = "square"} : tensor<8x16xf32> -> tensor<16xf32>
  %s = autopar.broadcast %z dims [1] : tensor<16xf32> -> tensor<8x16xf32>
  %t = autopar.dot_general %s, %whole contract [1] x [0] {autopar.id = "last"} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  return %t : tensor<8x16xf32>
}
