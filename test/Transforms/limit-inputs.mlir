// RUN: autopar-opt %s --split-input-file --pass-pipeline="builtin.module(func.func(autopar-limit-inputs))" | FileCheck %s

// Positions of rows, through a cast and a reshape; a table that is an input gets none.

// CHECK-LABEL: func.func @rows(%arg0: tensor<4xi32> {autopar.limits = array<i64: -50, 49>, autopar.name = "ids"}, %arg1: tensor<50x8xf32>)
func.func @rows(%ids: tensor<4xi32> {autopar.name = "ids"}, %w: tensor<50x8xf32>) -> tensor<4x8xf32> {
  %0 = autopar.cast %ids : tensor<4xi32> -> tensor<4xi64>
  %1 = autopar.reshape %0 : tensor<4xi64> -> tensor<4x1xi64>
  %2 = autopar.gather %w, %1 dims [0] batch 0 : (tensor<50x8xf32>, tensor<4x1xi64>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// -----

// Two tables: the shorter one decides.

// CHECK-LABEL: func.func @shared(%arg0: tensor<4x1xi64> {autopar.limits = array<i64: -20, 19>}
func.func @shared(%ids: tensor<4x1xi64>, %w: tensor<50x8xf32>, %v: tensor<20x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = autopar.gather %w, %ids dims [0] batch 0 : (tensor<50x8xf32>, tensor<4x1xi64>) -> tensor<4x8xf32>
  %1 = autopar.gather %v, %ids dims [0] batch 0 : (tensor<20x8xf32>, tensor<4x1xi64>) -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// What is computed from an input says nothing about it, and a part of it nothing about the rest.

// CHECK-LABEL: func.func @computed(
// CHECK-NOT: autopar.limits
func.func @computed(%ids: tensor<4x1xi64>, %w: tensor<50x8xf32>) -> (tensor<4x8xf32>, tensor<2x8xf32>) {
  %0 = autopar.binary add %ids, %ids : tensor<4x1xi64>
  %1 = autopar.gather %w, %0 dims [0] batch 0 : (tensor<50x8xf32>, tensor<4x1xi64>) -> tensor<4x8xf32>
  %2 = autopar.slice %ids starts [0, 0] steps [1, 1] : tensor<4x1xi64> -> tensor<2x1xi64>
  %3 = autopar.gather %w, %2 dims [0] batch 0 : (tensor<50x8xf32>, tensor<2x1xi64>) -> tensor<2x8xf32>
  return %1, %3 : tensor<4x8xf32>, tensor<2x8xf32>
}

// -----

// Labels of a loss: classes, and the one that is ignored.

// CHECK-LABEL: func.func @labels(%arg0: tensor<4xi64> {autopar.exception = -100 : i64, autopar.limits = array<i64: 0, 9>}
// CHECK: autopar.compare eq
// CHECK-NOT: autopar.limits
func.func @labels(%labels: tensor<4xi64>) -> tensor<4x10xi1> {
  %0 = autopar.iota dim 1 : tensor<4x10xi64>
  %1 = autopar.broadcast %labels dims [0] : tensor<4xi64> -> tensor<4x10xi64>
  %2 = autopar.compare eq %0, %1 {autopar.limits = array<i64: 0, 9>, autopar.exception = -100 : i64} : (tensor<4x10xi64>, tensor<4x10xi64>) -> tensor<4x10xi1>
  return %2 : tensor<4x10xi1>
}
