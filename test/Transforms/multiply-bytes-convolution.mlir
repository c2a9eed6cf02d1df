// RUN: autopar-opt %s --autopar-multiply-bytes --canonicalize --split-input-file | FileCheck %s

// A convolution is padded with the zero point of its input, which then is the same for every window.
// Filters without a sign, with 128 as zero point, have one of 0.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<1x32x8x8xui8>, %[[Z:.*]]: tensor<ui8>, %[[W:.*]]: tensor<16x32x3x3xui8>)
// CHECK:       %[[P:.*]] = autopar.cast %[[Z]] {{.*}} -> tensor<i32>
// CHECK:       %[[F:.*]] = autopar.cast %{{.*}} : tensor<16x32x3x3xi32> -> tensor<16x32x3x3xi8>
// CHECK:       %[[B:.*]] = autopar.cast %[[P]] {{.*}} -> tensor<ui8>
// CHECK:       %[[A:.*]] = autopar.pad %[[X]], %[[B]] low [0, 0, 1, 1] {{.*}} -> tensor<1x32x10x10xui8>
// CHECK:       %[[D:.*]] = autopar.convolution %[[A]], %[[F]] {{.*}} padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>{{.*}} (tensor<1x32x10x10xui8>, tensor<16x32x3x3xi8>) -> tensor<1x16x8x8xi32>
// CHECK:       %[[S:.*]] = autopar.reduce sum %{{.*}} dims [1, 2, 3] {{.*}} -> tensor<16xi32>
// CHECK:       %[[R:.*]] = autopar.broadcast %[[S]] dims [1] {{.*}} -> tensor<1x16x8x8xi32>
// CHECK:       %[[T:.*]] = autopar.binary mul %{{.*}}, %[[R]]
// CHECK:       %[[Y:.*]] = autopar.binary sub %[[D]], %[[T]] {autopar.id = "y"}
// CHECK:       return %[[Y]]
func.func @main(%x: tensor<1x32x8x8xui8>, %z: tensor<ui8>, %w: tensor<16x32x3x3xui8>) -> tensor<1x16x8x8xi32> {
  %xi = autopar.cast %x {autopar.id = "xi"} : tensor<1x32x8x8xui8> -> tensor<1x32x8x8xi32>
  %zi = autopar.cast %z {autopar.id = "zi"} : tensor<ui8> -> tensor<i32>
  %zs = autopar.broadcast %zi dims [] {autopar.id = "zs"} : tensor<i32> -> tensor<1x32x8x8xi32>
  %a = autopar.binary sub %xi, %zs {autopar.id = "a"} : tensor<1x32x8x8xi32>
  %wi = autopar.cast %w {autopar.id = "wi"} : tensor<16x32x3x3xui8> -> tensor<16x32x3x3xi32>
  %sign = autopar.constant {autopar.id = "sign"} dense<128> : tensor<16x32x3x3xi32>
  %b = autopar.binary sub %wi, %sign {autopar.id = "b"} : tensor<16x32x3x3xi32>
  %y = autopar.convolution %a, %b {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x32x8x8xi32>, tensor<16x32x3x3xi32>) -> tensor<1x16x8x8xi32>
  return %y : tensor<1x16x8x8xi32>
}

// -----

// Left to other passes: a zero point of filters, and groups for which the library has no fast code.

// CHECK-LABEL: func.func @main
// CHECK-COUNT-2: autopar.convolution {{.*}} (tensor<{{.*}}xi32>, tensor<{{.*}}xi32>)
func.func @main(%x: tensor<1x8x8x8xui8>, %z: tensor<i8>, %w: tensor<8x8x3x3xi8>, %v: tensor<8x4x3x3xi8>) -> (tensor<1x8x6x6xi32>, tensor<1x8x6x6xi32>) {
  %a = autopar.cast %x {autopar.id = "a"} : tensor<1x8x8x8xui8> -> tensor<1x8x8x8xi32>
  %zi = autopar.cast %z {autopar.id = "zi"} : tensor<i8> -> tensor<i32>
  %zs = autopar.broadcast %zi dims [] {autopar.id = "zs"} : tensor<i32> -> tensor<8x8x3x3xi32>
  %wi = autopar.cast %w {autopar.id = "wi"} : tensor<8x8x3x3xi8> -> tensor<8x8x3x3xi32>
  %b = autopar.binary sub %wi, %zs {autopar.id = "b"} : tensor<8x8x3x3xi32>
  %c = autopar.cast %v {autopar.id = "c"} : tensor<8x4x3x3xi8> -> tensor<8x4x3x3xi32>
  %y = autopar.convolution %a, %b {autopar.id = "y", strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x8x8xi32>, tensor<8x8x3x3xi32>) -> tensor<1x8x6x6xi32>
  %u = autopar.convolution %a, %c {autopar.id = "u", strides = array<i64: 1, 1>, padBegin = array<i64: 0, 0>, padEnd = array<i64: 0, 0>,
      inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 2 : i64} : (tensor<1x8x8x8xi32>, tensor<8x4x3x3xi32>) -> tensor<1x8x6x6xi32>
  return %y, %u : tensor<1x8x6x6xi32>, tensor<1x8x6x6xi32>
}
