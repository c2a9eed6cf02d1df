// RUN: autopar-opt %s --autopar-form-fusion-groups --autopar-to-exec -split-input-file | FileCheck %s

// Weights of 4 bits in blocks of 32 never stand in memory as floats: a kernel makes columns of a matrix when the product
// needs them. The next matrix is 64 * 32 bytes further on; a matrix is one part.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.grouped_product %{{.*}}, made by @[[MAKER:k[0-9]+]](%[[CODES:.*]], %[[SCALES:.*]]) extent {{[0-9]+}} steps [2048, 512], [0, 0] by %{{.*}} -> %{{.*}} scratch %{{.*}} <lhs = <f32[100, 64] strides[64, 1]>, rows = <f32[100, 64] strides[64, 1]>, matrices = tensor<4x64x64xf32>, numbers = i64, transposed = true, madeColumns = 64>
// CHECK-NOT: exec.launch
// CHECK: exec.timetable
// The kernel sees no more of its inputs than one part is made of.
// CHECK: func.func @[[MAKER]](%{{.*}}: memref<2048xi8>, %{{.*}}: memref<128xf32>, %{{.*}}: memref<4096xf32>
func.func @main(%x: tensor<100x64xf32> {autopar.name = "x"}, %codes: tensor<4x64x32xui8> {autopar.name = "codes"},
                %scales: tensor<4x64x2xf32> {autopar.name = "scales"}, %group: tensor<100xi64> {autopar.name = "group"})
    -> (tensor<100x64xf32> {autopar.name = "y"}) {
  %both = autopar.broadcast %codes dims [0, 1, 2] : tensor<4x64x32xui8> -> tensor<4x64x32x2xui8>
  %sixteen = autopar.constant dense<16> : tensor<4x64x32x2xui8>
  %low = autopar.binary modulo %both, %sixteen : tensor<4x64x32x2xui8>
  %wide = autopar.cast %low : tensor<4x64x32x2xui8> -> tensor<4x64x32x2xf32>
  %blocks = autopar.reshape %wide : tensor<4x64x32x2xf32> -> tensor<4x64x2x32xf32>
  %all = autopar.broadcast %scales dims [0, 1, 2] : tensor<4x64x2xf32> -> tensor<4x64x2x32xf32>
  %scaled = autopar.binary mul %blocks, %all : tensor<4x64x2x32xf32>
  %w = autopar.reshape %scaled : tensor<4x64x2x32xf32> -> tensor<4x64x64xf32>
  %y = autopar.grouped_dot %x, %w, %group transposed {autopar.id = "y"} : (tensor<100x64xf32>, tensor<4x64x64xf32>, tensor<100xi64>) -> tensor<100x64xf32>
  return %y : tensor<100x64xf32>
}

// -----

// Large matrices are made in parts of 512 KB, here of 256 columns, which are not rows.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.grouped_product %{{.*}}, made by @[[MAKER:k[0-9]+]](%{{.*}}, %{{.*}}) extent {{[0-9]+}} steps [524288, 4096], [256, 1024] by %{{.*}} madeColumns = 256>
// CHECK-NOT: exec.launch
// CHECK: exec.timetable
// CHECK: func.func @[[MAKER]](%{{.*}}: memref<523520xi8>, %{{.*}}: memref<256xf32>, %{{.*}}: memref<131072xf32>
func.func @main(%x: tensor<100x512xf32> {autopar.name = "x"}, %codes: tensor<2x512x1024xui8> {autopar.name = "codes"},
                %scales: tensor<2x1024xf32> {autopar.name = "scales"}, %group: tensor<100xi64> {autopar.name = "group"})
    -> (tensor<100x1024xf32> {autopar.name = "y"}) {
  %wide = autopar.cast %codes : tensor<2x512x1024xui8> -> tensor<2x512x1024xf32>
  %all = autopar.broadcast %scales dims [0, 2] : tensor<2x1024xf32> -> tensor<2x512x1024xf32>
  %w = autopar.binary mul %wide, %all : tensor<2x512x1024xf32>
  %y = autopar.grouped_dot %x, %w, %group {autopar.id = "y"} : (tensor<100x512xf32>, tensor<2x512x1024xf32>, tensor<100xi64>) -> tensor<100x1024xf32>
  return %y : tensor<100x1024xf32>
}

// -----

// What is made with the number of the matrix is made as a whole: the kernel of one matrix does not know which it is.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.launch
// CHECK-NEXT: exec.grouped_product %{{.*}}, %{{.*}} by
func.func @main(%x: tensor<100x64xf32> {autopar.name = "x"}, %codes: tensor<4x64x64xui8> {autopar.name = "codes"},
                %group: tensor<100xi64> {autopar.name = "group"}) -> (tensor<100x64xf32> {autopar.name = "y"}) {
  %wide = autopar.cast %codes : tensor<4x64x64xui8> -> tensor<4x64x64xf32>
  %number = autopar.iota dim 0 : tensor<4x64x64xf32>
  %w = autopar.binary mul %wide, %number : tensor<4x64x64xf32>
  %y = autopar.grouped_dot %x, %w, %group {autopar.id = "y"} : (tensor<100x64xf32>, tensor<4x64x64xf32>, tensor<100xi64>) -> tensor<100x64xf32>
  return %y : tensor<100x64xf32>
}

// -----

// So is what two products read.

// CHECK: exec.entry @step
// CHECK-NEXT: exec.launch
// CHECK-NEXT: exec.grouped_product %{{.*}}, %{{.*}} by
// CHECK-NEXT: exec.grouped_product %{{.*}}, %{{.*}} by
func.func @main(%x: tensor<100x64xf32> {autopar.name = "x"}, %codes: tensor<4x64x64xui8> {autopar.name = "codes"},
                %group: tensor<100xi64> {autopar.name = "group"}) -> (tensor<100x64xf32> {autopar.name = "y"}) {
  %w = autopar.cast %codes : tensor<4x64x64xui8> -> tensor<4x64x64xf32>
  %h = autopar.grouped_dot %x, %w, %group {autopar.id = "h"} : (tensor<100x64xf32>, tensor<4x64x64xf32>, tensor<100xi64>) -> tensor<100x64xf32>
  %y = autopar.grouped_dot %h, %w, %group {autopar.id = "y"} : (tensor<100x64xf32>, tensor<4x64x64xf32>, tensor<100xi64>) -> tensor<100x64xf32>
  return %y : tensor<100x64xf32>
}
