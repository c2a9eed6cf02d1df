// RUN: autopar-opt %s --autopar-gather-first --canonicalize | FileCheck %s

// Rows are looked up as bytes and dequantized then; scales of columns stay, those of rows are looked up too.

// CHECK-LABEL: @table
// CHECK:       %[[Z:.*]] = autopar.constant {{.*}}dense<3> : tensor<2x4x64xi32>
// CHECK:       %[[B:.*]] = autopar.gather %arg0, %arg1 dims [0] batch 0 {{.*}}: (tensor<1000x64xi8>, tensor<2x4x1xi64>) -> tensor<2x4x64xi8>
// CHECK:       %[[I:.*]] = autopar.cast %[[B]] {{.*}} -> tensor<2x4x64xi32>
// CHECK:       %[[D:.*]] = autopar.binary sub %[[I]], %[[Z]]
// CHECK:       %[[F:.*]] = autopar.cast %[[D]] {{.*}} -> tensor<2x4x64xf32>
// CHECK:       %[[C:.*]] = autopar.broadcast %arg2 dims [2] {{.*}}: tensor<64xf32> -> tensor<2x4x64xf32>
// CHECK:       %[[M:.*]] = autopar.binary mul %[[F]], %[[C]]
// CHECK:       %[[R:.*]] = autopar.gather %arg3, %arg1 dims [0] batch 0 {{.*}}: (tensor<1000xf32>, tensor<2x4x1xi64>) -> tensor<2x4xf32>
// CHECK:       %[[S:.*]] = autopar.broadcast %[[R]] dims [0, 1]
// CHECK:       %[[Y:.*]] = autopar.binary mul %[[M]], %[[S]] {autopar.id = "y"} : tensor<2x4x64xf32>
// CHECK:       return %[[Y]]
func.func @table(%t: tensor<1000x64xi8>, %i: tensor<2x4x1xi64>, %c: tensor<64xf32>, %r: tensor<1000xf32>) -> tensor<2x4x64xf32> {
  %wide = autopar.cast %t {autopar.id = "wide"} : tensor<1000x64xi8> -> tensor<1000x64xi32>
  %zero = autopar.constant {autopar.id = "zero"} dense<3> : tensor<1000x64xi32>
  %whole = autopar.binary sub %wide, %zero {autopar.id = "whole"} : tensor<1000x64xi32>
  %floats = autopar.cast %whole {autopar.id = "floats"} : tensor<1000x64xi32> -> tensor<1000x64xf32>
  %columns = autopar.broadcast %c dims [1] {autopar.id = "columns"} : tensor<64xf32> -> tensor<1000x64xf32>
  %some = autopar.binary mul %floats, %columns {autopar.id = "some"} : tensor<1000x64xf32>
  %rows = autopar.broadcast %r dims [0] {autopar.id = "rows"} : tensor<1000xf32> -> tensor<1000x64xf32>
  %all = autopar.binary mul %some, %rows {autopar.id = "all"} : tensor<1000x64xf32>
  %y = autopar.gather %all, %i dims [0] batch 0 {autopar.id = "y"} : (tensor<1000x64xf32>, tensor<2x4x1xi64>) -> tensor<2x4x64xf32>
  return %y : tensor<2x4x64xf32>
}

// Left alone: a table that is not larger than what it is made of, and one of which more is looked up than there is.

// CHECK-LABEL: @others
// CHECK:       %[[S:.*]] = autopar.unary sqrt %arg0
// CHECK:       autopar.gather %[[S]], %arg2
// CHECK:       %[[F:.*]] = autopar.cast %arg1
// CHECK:       autopar.gather %[[F]], %arg2
func.func @others(%t: tensor<1000x64xf32>, %s: tensor<2x64xi8>, %i: tensor<2x4x1xi64>) -> (tensor<2x4x64xf32>, tensor<2x4x64xf32>) {
  %root = autopar.unary sqrt %t : tensor<1000x64xf32>
  %y = autopar.gather %root, %i dims [0] batch 0 : (tensor<1000x64xf32>, tensor<2x4x1xi64>) -> tensor<2x4x64xf32>
  %floats = autopar.cast %s : tensor<2x64xi8> -> tensor<2x64xf32>
  %z = autopar.gather %floats, %i dims [0] batch 0 : (tensor<2x64xf32>, tensor<2x4x1xi64>) -> tensor<2x4x64xf32>
  return %y, %z : tensor<2x4x64xf32>, tensor<2x4x64xf32>
}
