// REQUIRES: avx512vnni
// RUN: autopar-opt %s --split-input-file --autopar-to-exec | FileCheck %s

// Weights of bytes are packed at load, and summed up there for the zero point of the other side: the
// step has no plain ones.

// CHECK:      exec.entry @load
// CHECK-DAG:  exec.read "w" -> %[[READ:[0-9]+]]
// CHECK-DAG:  exec.pack %[[READ]] -> %[[PACKED:[0-9]+]] for #exec.matmul<a = <ui8[8, 64] strides[64, 1]>, b = <i8[64, 32] strides[32, 1]>, c = <i32[8, 32] strides[32, 1]>, packedB = true>
// CHECK-DAG:  exec.launch @{{.*}}(%[[READ]]) -> (%[[SUMS:[0-9]+]])
// CHECK:      exec.entry @step
// CHECK:      exec.matmul %{{[0-9]+}}, %[[PACKED]] -> %[[C:[0-9]+]]
// CHECK-NEXT: exec.launch @{{.*}}(%[[C]], %[[SUMS]])
func.func @main(%x: tensor<8x64xui8> {autopar.name = "x"}, %w: tensor<64x32xi8> {autopar.name = "w", autopar.origin = @w}) -> (tensor<8x32xi32> {autopar.name = "y"}) {
  %sums = autopar.group %w {autopar.id = "sums"} : (tensor<64x32xi8>) -> tensor<32xi32> {
  ^bb0(%g: tensor<64x32xi8>):
    %0 = autopar.cast %g : tensor<64x32xi8> -> tensor<64x32xi32>
    %1 = autopar.reduce sum %0 dims [0] : tensor<64x32xi32> -> tensor<32xi32>
    autopar.yield %1 : tensor<32xi32>
  }
  %p = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "p"} : (tensor<8x64xui8>, tensor<64x32xi8>) -> tensor<8x32xi32>
  %y = autopar.group %p, %sums {autopar.id = "y"} : (tensor<8x32xi32>, tensor<32xi32>) -> tensor<8x32xi32> {
  ^bb0(%g: tensor<8x32xi32>, %s: tensor<32xi32>):
    %0 = autopar.broadcast %s dims [1] : tensor<32xi32> -> tensor<8x32xi32>
    %1 = autopar.binary sub %g, %0 : tensor<8x32xi32>
    autopar.yield %1 : tensor<8x32xi32>
  }
  return %y : tensor<8x32xi32>
}
autopar.origin @w : tensor<64x32xi8> in "w.bin" at 0

// -----

// A program that convolves bytes has channels last, all of them, in kernels between convolutions too;
// borders are added to what lies so.

// CHECK:      exec.entry @step
// CHECK-NEXT: exec.reorder {{.*}} plain -> {{.*}} channels_last
// CHECK-NEXT: exec.pack
// CHECK-NEXT: exec.convolution {{.*}} xLayout = channels_last, yLayout = channels_last, packedW = true
// CHECK-NEXT: exec.launch @[[PAD:k[0-9]+]]
// CHECK-NEXT: exec.pack
// CHECK-NEXT: exec.convolution {{.*}} xLayout = channels_last, yLayout = channels_last, packedW = true
// CHECK-NEXT: exec.launch @[[MEAN:k[0-9]+]]
// CHECK-NEXT: {{^ *}}}
func.func @main(%x: tensor<1x3x8x8xui8> {autopar.name = "x"}, %w: tensor<12x3x1x1xi8> {autopar.name = "w"},
                %v: tensor<10x12x3x3xi8> {autopar.name = "v"}) -> (tensor<1x10xi32> {autopar.name = "y"}) {
  %a = autopar.convolution %x, %w {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x3x8x8xui8>, tensor<12x3x1x1xi8>) -> tensor<1x12x8x8xi32>
  %p = autopar.group %a {autopar.id = "pad"} : (tensor<1x12x8x8xi32>) -> tensor<1x12x10x10xi8> {
  ^bb0(%g: tensor<1x12x8x8xi32>):
    %0 = autopar.cast %g : tensor<1x12x8x8xi32> -> tensor<1x12x8x8xi8>
    %1 = autopar.constant dense<-3> : tensor<i8>
    %2 = autopar.pad %0, %1 low [0, 0, 1, 1] : (tensor<1x12x8x8xi8>, tensor<i8>) -> tensor<1x12x10x10xi8>
    autopar.yield %2 : tensor<1x12x10x10xi8>
  }
  %b = autopar.convolution %p, %v {strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x12x10x10xi8>, tensor<10x12x3x3xi8>) -> tensor<1x10x8x8xi32>
  %y = autopar.group %b {autopar.id = "mean"} : (tensor<1x10x8x8xi32>) -> tensor<1x10xi32> {
  ^bb0(%g: tensor<1x10x8x8xi32>):
    %0 = autopar.reduce sum %g dims [2, 3] : tensor<1x10x8x8xi32> -> tensor<1x10xi32>
    autopar.yield %0 : tensor<1x10xi32>
  }
  return %y : tensor<1x10xi32>
}
