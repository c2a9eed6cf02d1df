// RUN: autopar-opt %s --pass-pipeline="builtin.module(autopar-carry-state{carry=present.*=past.*})" | FileCheck %s

// Of a cache that grows, the last rows are carried, as many as there were.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %arg1: tensor<2x3xf32> {autopar.donated, autopar.name = "past.0"})
// CHECK-SAME: -> (tensor<2x5xf32> {autopar.name = "y"}, tensor<2x3xf32> {autopar.name = "past.0"})
// CHECK: %[[ALL:.*]] = autopar.concat %arg1, %arg0 dim 1
// CHECK: %[[LAST:.*]] = autopar.slice %[[ALL]] starts [0, 2] steps [1, 1] {autopar.id = "grown/kept"} : tensor<2x5xf32> -> tensor<2x3xf32>
// CHECK: return %[[ALL]], %[[LAST]]
func.func @main(%new: tensor<2x2xf32> {autopar.name = "new"}, %past: tensor<2x3xf32> {autopar.name = "past.0"})
    -> (tensor<2x5xf32> {autopar.name = "y"}, tensor<2x5xf32> {autopar.name = "present.0"}) {
  %0 = autopar.concat %past, %new dim 1 {autopar.id = "grown"} : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<2x5xf32>
  return %0, %0 : tensor<2x5xf32>, tensor<2x5xf32>
}
