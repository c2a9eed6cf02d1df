// RUN: autopar-opt %s --split-input-file --pass-pipeline="builtin.module(autopar-carry-state{carry=present.*=past.*,count=counted})" | FileCheck %s

// A pattern, and a name as it is; what is not named stays.

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %arg0: tensor<4xf32> {autopar.name = "x"},
// CHECK-SAME: %arg1: tensor<4xf32> {autopar.donated, autopar.name = "past.0.key"},
// CHECK-SAME: %arg2: tensor<i64> {autopar.donated, autopar.name = "counted"})
// CHECK-SAME: -> (tensor<4xf32> {autopar.name = "y"}, tensor<4xf32> {autopar.name = "past.0.key"}, tensor<i64> {autopar.name = "counted"})
func.func @main(%x: tensor<4xf32> {autopar.name = "x"}, %past: tensor<4xf32> {autopar.name = "past.0.key"},
                %counted: tensor<i64> {autopar.name = "counted"})
    -> (tensor<4xf32> {autopar.name = "y"}, tensor<4xf32> {autopar.name = "present.0.key"}, tensor<i64> {autopar.name = "count"}) {
  %0 = autopar.binary add %x, %past : tensor<4xf32>
  return %0, %x, %counted : tensor<4xf32>, tensor<4xf32>, tensor<i64>
}
