// RUN: autopar-opt %s --autopar-add-adapters="adapters=lora(rank=2)" 2>&1 | FileCheck %s

// What parameters alone make is multiplied by the adapter of its matrix too, where another product has one. The product of
// parameters with a matrix of its own has none.

// CHECK: remark: 1 matrix adapted by rank 2, 32 numbers
// CHECK: %[[A:[a-z0-9]+]]: tensor<2x8xf32> {autopar.adapter, autopar.name = "key.lora_A.weight"
// CHECK: autopar.dot_general %[[TABLE:[a-z0-9]+]], %[[KEY:[a-z0-9]+]] contract [1] x [0] {autopar.id = "distances"}
// CHECK-NEXT: autopar.dot_general %[[TABLE]], %[[A]] contract [1] x [1]
// CHECK: autopar.dot_general %[[TABLE]], %{{[a-z0-9]+}} contract [1] x [0] {autopar.id = "alone"}
// CHECK-NOT: lora
// CHECK: autopar.dot_general %[[X:[a-z0-9]+]], %[[KEY]] contract [1] x [0] {autopar.id = "keys"}
// CHECK-NEXT: autopar.dot_general %[[X]], %[[A]] contract [1] x [1]

autopar.origin @table : tensor<4x8xf32>
autopar.origin @key.weight : tensor<8x8xf32>
autopar.origin @own.weight : tensor<8x8xf32>
func.func @main(%x: tensor<4x8xf32> {autopar.name = "x"},
                %table: tensor<4x8xf32> {autopar.name = "table", autopar.origin = @table},
                %key: tensor<8x8xf32> {autopar.name = "key.weight", autopar.origin = @key.weight},
                %own: tensor<8x8xf32> {autopar.name = "own.weight", autopar.origin = @own.weight}) -> (tensor<4x8xf32> {autopar.name = "y"}) {
  %0 = autopar.dot_general %table, %key contract [1] x [0] {autopar.id = "distances"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = autopar.dot_general %table, %own contract [1] x [0] {autopar.id = "alone"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = autopar.dot_general %x, %key contract [1] x [0] {autopar.id = "keys"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %3 = autopar.binary add %0, %2 : tensor<4x8xf32>
  %4 = autopar.binary add %3, %1 : tensor<4x8xf32>
  %5 = autopar.unary tanh %4 : tensor<4x8xf32>
  %6 = autopar.dot_general %5, %own contract [1] x [0] {autopar.id = "last"} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}
