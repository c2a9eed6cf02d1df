// RUN: autopar-opt %s --autopar-split-micro-batches=count=2 --split-input-file | FileCheck %s

// The next value of a donated argument has its type, whatever micro-batches make of it in parts.

// CHECK-LABEL: func.func @main(%{{.*}}: tensor<4x8xf32> {autopar.donated, autopar.name = "cache"}, %{{.*}}: tensor<2x2x8xf32>
// CHECK-SAME: -> (tensor<4x8xf32> {autopar.name = "cache"}, tensor<2x2x8xf32> {autopar.micro_batches = 2 : i64, autopar.name = "y"})
// CHECK: autopar.stack_micro_batches
// CHECK: autopar.reshape {{.*}} : tensor<2x2x8xf32> -> tensor<4x8xf32>
func.func @main(%cache: tensor<4x8xf32> {autopar.donated, autopar.name = "cache"}, %x: tensor<4x8xf32> {autopar.name = "x"})
    -> (tensor<4x8xf32> {autopar.name = "cache"}, tensor<4x8xf32> {autopar.name = "y"}) {
  %0 = autopar.binary add %cache, %x {autopar.id = "a"} : tensor<4x8xf32>
  return %0, %0 : tensor<4x8xf32>, tensor<4x8xf32>
}
