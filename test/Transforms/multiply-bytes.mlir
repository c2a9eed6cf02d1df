// RUN: autopar-opt %s --autopar-multiply-bytes --canonicalize --split-input-file | FileCheck %s

// What both sides are less is taken from the sum: that of the left by sums of the right, and the other way round.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<8x512xui8>, %[[ZX:.*]]: tensor<ui8>, %[[W:.*]]: tensor<512x4xi8>, %[[ZW:.*]]: tensor<4xi8>)
// CHECK-DAG:   %[[P:.*]] = autopar.cast %[[ZX]]
// CHECK-DAG:   %[[Q:.*]] = autopar.cast %[[ZW]]
// CHECK:       %[[D:.*]] = autopar.dot_general %[[X]], %[[W]] contract [1] x [0] {autopar.id = "y/bytes"} : (tensor<8x512xui8>, tensor<512x4xi8>) -> tensor<8x4xi32>
// CHECK:       %[[B:.*]] = autopar.cast %[[W]] {{.*}} -> tensor<512x4xi32>
// CHECK:       %[[S:.*]] = autopar.reduce sum %[[B]] dims [0]
// CHECK:       %[[N:.*]] = autopar.binary mul %[[Q]], %{{.*}} : tensor<4xi32>
// CHECK:       %[[C:.*]] = autopar.binary sub %[[S]], %[[N]] {{.*}} : tensor<4xi32>
// CHECK:       %[[CS:.*]] = autopar.broadcast %[[C]] dims [1]
// CHECK:       %[[PS:.*]] = autopar.broadcast %[[P]] dims []
// CHECK:       %[[T:.*]] = autopar.binary mul %[[PS]], %[[CS]]
// CHECK:       %[[L:.*]] = autopar.binary sub %[[D]], %[[T]]
// CHECK:       %[[A:.*]] = autopar.cast %[[X]] {{.*}} -> tensor<8x512xi32>
// CHECK:       %[[R:.*]] = autopar.reduce sum %[[A]] dims [1]
// CHECK:       %[[RS:.*]] = autopar.broadcast %[[R]] dims [0]
// CHECK:       %[[QS:.*]] = autopar.broadcast %[[Q]] dims [1]
// CHECK:       %[[U:.*]] = autopar.binary mul %[[QS]], %[[RS]]
// CHECK:       %[[Y:.*]] = autopar.binary sub %[[L]], %[[U]] {autopar.id = "y"}
// CHECK:       return %[[Y]]
func.func @main(%x: tensor<8x512xui8>, %zx: tensor<ui8>, %w: tensor<512x4xi8>, %zw: tensor<4xi8>) -> tensor<8x4xi32> {
  %xi = autopar.cast %x {autopar.id = "xi"} : tensor<8x512xui8> -> tensor<8x512xi32>
  %pi = autopar.cast %zx {autopar.id = "pi"} : tensor<ui8> -> tensor<i32>
  %ps = autopar.broadcast %pi dims [] {autopar.id = "ps"} : tensor<i32> -> tensor<8x512xi32>
  %a = autopar.binary sub %xi, %ps {autopar.id = "a"} : tensor<8x512xi32>
  %wi = autopar.cast %w {autopar.id = "wi"} : tensor<512x4xi8> -> tensor<512x4xi32>
  %qi = autopar.cast %zw {autopar.id = "qi"} : tensor<4xi8> -> tensor<4xi32>
  %qs = autopar.broadcast %qi dims [1] {autopar.id = "qs"} : tensor<4xi32> -> tensor<512x4xi32>
  %b = autopar.binary sub %wi, %qs {autopar.id = "b"} : tensor<512x4xi32>
  %y = autopar.dot_general %a, %b contract [1] x [0] {autopar.id = "y"} : (tensor<8x512xi32>, tensor<512x4xi32>) -> tensor<8x4xi32>
  return %y : tensor<8x4xi32>
}

// -----

// The right side has a sign: bytes without one are less by 128, which is one zero point more; views
// are of the bytes then. Integers that are small enough are bytes.

// CHECK-LABEL: func.func @main
// CHECK-SAME:  (%[[X:.*]]: tensor<3x8x16xi8>, %[[W:.*]]: tensor<3x4x16xui8>)
// CHECK:       %[[V:.*]] = autopar.transpose %[[W]] permutation [0, 2, 1] {{.*}} : tensor<3x4x16xui8> -> tensor<3x16x4xui8>
// CHECK:       %[[I:.*]] = autopar.cast %[[V]] {{.*}} -> tensor<3x16x4xi32>
// CHECK:       %[[M:.*]] = autopar.binary sub %[[I]]
// CHECK:       %[[B:.*]] = autopar.cast %[[M]] {{.*}} -> tensor<3x16x4xi8>
// CHECK:       autopar.dot_general %[[X]], %[[B]] batch [0] x [0] contract [2] x [1] {{.*}} : (tensor<3x8x16xi8>, tensor<3x16x4xi8>) -> tensor<3x8x4xi32>
// CHECK:       autopar.reduce sum %{{.*}} dims [2] {{.*}} -> tensor<3x8xi32>
// CHECK:       autopar.broadcast %{{.*}} dims [0, 1] {{.*}} : tensor<3x8xi32> -> tensor<3x8x4xi32>
// CHECK:       %[[C:.*]] = autopar.cast %{{.*}} : tensor<3x8x16xi32> -> tensor<3x8x16xui8>
// CHECK:       %[[E:.*]] = autopar.cast %{{.*}} : tensor<3x8x16xi32> -> tensor<3x8x16xi8>
// CHECK:       autopar.dot_general %[[C]], %[[E]] {{.*}} : (tensor<3x8x16xui8>, tensor<3x8x16xi8>) -> tensor<3x8x8xi32>
func.func @main(%x: tensor<3x8x16xi8>, %w: tensor<3x4x16xui8>) -> (tensor<3x8x4xi32>, tensor<3x8x8xi32>) {
  %a = autopar.cast %x {autopar.id = "a"} : tensor<3x8x16xi8> -> tensor<3x8x16xi32>
  %wi = autopar.cast %w {autopar.id = "wi"} : tensor<3x4x16xui8> -> tensor<3x4x16xi32>
  %b = autopar.transpose %wi permutation [0, 2, 1] {autopar.id = "b"} : tensor<3x4x16xi32> -> tensor<3x16x4xi32>
  %y = autopar.dot_general %a, %b batch [0] x [0] contract [2] x [1] {autopar.id = "y"} : (tensor<3x8x16xi32>, tensor<3x16x4xi32>) -> tensor<3x8x4xi32>
  %sign = autopar.constant {autopar.id = "sign"} dense<128> : tensor<3x8x16xi32>
  %c = autopar.binary add %a, %sign {autopar.id = "c"} : tensor<3x8x16xi32>
  %zero = autopar.constant {autopar.id = "zero"} dense<0> : tensor<3x8x16xi32>
  %e = autopar.binary max %a, %zero {autopar.id = "e"} : tensor<3x8x16xi32>
  %z = autopar.dot_general %c, %e batch [0] x [0] contract [2] x [2] {autopar.id = "z"} : (tensor<3x8x16xi32>, tensor<3x8x16xi32>) -> tensor<3x8x8xi32>
  return %y, %z : tensor<3x8x4xi32>, tensor<3x8x8xi32>
}

// -----

// Left to other passes: numbers of more than 8 bits, zero points that differ along what is summed,
// few rows by weights that the step makes.

// CHECK-LABEL: func.func @main
// CHECK-NOT:   (tensor<{{.*}}i8>, tensor<{{.*}}i8>) -> tensor<{{.*}}i32>
// CHECK:       return
func.func @main(%x: tensor<8x64xi16>, %w: tensor<64x8xi8>, %v: tensor<8x64xi8>, %z: tensor<64xi8>)
    -> (tensor<8x8xi32>, tensor<8x8xi32>, tensor<4x8xi32>) {
  %xi = autopar.cast %x {autopar.id = "xi"} : tensor<8x64xi16> -> tensor<8x64xi32>
  %wi = autopar.cast %w {autopar.id = "wi"} : tensor<64x8xi8> -> tensor<64x8xi32>
  %a = autopar.dot_general %xi, %wi contract [1] x [0] {autopar.id = "wide"} : (tensor<8x64xi32>, tensor<64x8xi32>) -> tensor<8x8xi32>
  %vi = autopar.cast %v {autopar.id = "vi"} : tensor<8x64xi8> -> tensor<8x64xi32>
  %zi = autopar.cast %z {autopar.id = "zi"} : tensor<64xi8> -> tensor<64xi32>
  %zs = autopar.broadcast %zi dims [1] {autopar.id = "zs"} : tensor<64xi32> -> tensor<8x64xi32>
  %d = autopar.binary sub %vi, %zs {autopar.id = "d"} : tensor<8x64xi32>
  %b = autopar.dot_general %d, %wi contract [1] x [0] {autopar.id = "along"} : (tensor<8x64xi32>, tensor<64x8xi32>) -> tensor<8x8xi32>
  %rows = autopar.slice %vi starts [0, 0] steps [1, 1] {autopar.id = "rows"} : tensor<8x64xi32> -> tensor<4x64xi32>
  %e = autopar.dot_general %rows, %wi contract [1] x [0] {autopar.id = "few"} : (tensor<4x64xi32>, tensor<64x8xi32>) -> tensor<4x8xi32>
  return %a, %b, %e : tensor<8x8xi32>, tensor<8x8xi32>, tensor<4x8xi32>
}
