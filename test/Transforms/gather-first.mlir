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

// Numbers of four bits, two in a byte, and scales of blocks: lookups go through what takes bytes apart and repeats scales.

// CHECK-LABEL: @packed
// CHECK:       %[[B:.*]] = autopar.gather %arg0, %arg1 dims [0] batch 0 {{.*}}: (tensor<1000x32xui8>, tensor<4x1xi64>) -> tensor<4x32xui8>
// CHECK:       %[[T:.*]] = autopar.broadcast %[[B]] dims [0, 1] {{.*}}: tensor<4x32xui8> -> tensor<4x32x2xui8>
// CHECK:       %[[H:.*]] = autopar.binary shift_right %[[T]]
// CHECK:       %[[N:.*]] = autopar.reshape %[[H]] {{.*}}: tensor<4x32x2xui8> -> tensor<4x64xui8>
// CHECK:       autopar.cast %[[N]]
// CHECK:       %[[S:.*]] = autopar.gather %arg2, %arg1 dims [0] batch 0 {{.*}}: (tensor<1000x5xf32>, tensor<4x1xi64>) -> tensor<4x5xf32>
// CHECK:       %[[P:.*]] = autopar.slice %[[S]] starts [0, 0] steps [1, 1] {{.*}}: tensor<4x5xf32> -> tensor<4x4xf32>
// CHECK:       %[[W:.*]] = autopar.broadcast %[[P]] dims [0, 1] {{.*}}-> tensor<4x4x16xf32>
// CHECK:       autopar.reshape %[[W]] {{.*}}-> tensor<4x64xf32>
func.func @packed(%t: tensor<1000x32xui8>, %i: tensor<4x1xi64>, %s: tensor<1000x5xf32>) -> tensor<4x64xf32> {
  %shift = autopar.constant dense<[0, 4]> : tensor<2xui8>
  %shifts = autopar.broadcast %shift dims [2] : tensor<2xui8> -> tensor<1000x32x2xui8>
  %twice = autopar.broadcast %t dims [0, 1] : tensor<1000x32xui8> -> tensor<1000x32x2xui8>
  %halves = autopar.binary shift_right %twice, %shifts : tensor<1000x32x2xui8>
  %numbers = autopar.reshape %halves : tensor<1000x32x2xui8> -> tensor<1000x64xui8>
  %floats = autopar.cast %numbers : tensor<1000x64xui8> -> tensor<1000x64xf32>
  %four = autopar.slice %s starts [0, 0] steps [1, 1] : tensor<1000x5xf32> -> tensor<1000x4xf32>
  %blocks = autopar.broadcast %four dims [0, 1] : tensor<1000x4xf32> -> tensor<1000x4x16xf32>
  %scales = autopar.reshape %blocks : tensor<1000x4x16xf32> -> tensor<1000x64xf32>
  %all = autopar.binary mul %floats, %scales : tensor<1000x64xf32>
  %y = autopar.gather %all, %i dims [0] batch 0 {autopar.id = "y"} : (tensor<1000x64xf32>, tensor<4x1xi64>) -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
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
