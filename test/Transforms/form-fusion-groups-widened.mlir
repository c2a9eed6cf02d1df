// A cast to a wider float that is a result of the function is stored by the kernel that makes what it casts.
// RUN: autopar-opt %s --autopar-form-fusion-groups --split-input-file | FileCheck %s

// CHECK-LABEL: func.func @slice(
// CHECK: autopar.group %{{.*}} : (tensor<8x40xbf16>) -> tensor<8x33xf32> {
// CHECK-NOT: autopar.group
func.func @slice(%x: tensor<8x40xbf16>) -> tensor<8x33xf32> {
  %s = autopar.slice %x starts [0, 0] steps [1, 1] {autopar.id = "s"} : tensor<8x40xbf16> -> tensor<8x33xbf16>
  %c = autopar.cast %s {autopar.id = "c"} : tensor<8x33xbf16> -> tensor<8x33xf32>
  return %c : tensor<8x33xf32>
}

// -----

// CHECK-LABEL: func.func @norm(
// CHECK: %[[Y:.*]] = autopar.group {{.*}} -> tensor<64x32xf32> {
// CHECK-NOT: autopar.group
// CHECK: return %[[Y]]
func.func @norm(%x: tensor<64x32xbf16>, %s: tensor<32xbf16>) -> tensor<64x32xf32> {
  %n = autopar.normalize %x dims [1] epsilon 1.0e-05 {autopar.id = "n"} : tensor<64x32xbf16>
  %b = autopar.broadcast %s dims [1] : tensor<32xbf16> -> tensor<64x32xbf16>
  %y = autopar.binary mul %n, %b {autopar.id = "y"} : tensor<64x32xbf16>
  %c = autopar.cast %y {autopar.id = "c"} : tensor<64x32xbf16> -> tensor<64x32xf32>
  return %c : tensor<64x32xf32>
}

// -----

// Groups read what is narrow: it is stored beside. Reshapes on the way out are views.

// CHECK-LABEL: func.func @tanh(
// CHECK: %[[Y:.*]]:2 = autopar.group {{.*}} -> (tensor<64x32xbf16>, tensor<64x32xf32>) {
// CHECK: %[[VIEW:.*]] = autopar.reshape %[[Y]]#1
// CHECK: autopar.group %[[Y]]#0, %{{.*}}
// CHECK: autopar.dot_general
// CHECK: return %[[VIEW]]
func.func @tanh(%x: tensor<64x32xbf16>, %w: tensor<32x8xbf16>) -> (tensor<2048xf32>, tensor<64x8xbf16>) {
  %y = autopar.unary tanh %x {autopar.id = "y"} : tensor<64x32xbf16>
  %c = autopar.cast %y {autopar.id = "c"} : tensor<64x32xbf16> -> tensor<64x32xf32>
  %r = autopar.reshape %c : tensor<64x32xf32> -> tensor<2048xf32>
  %p = autopar.dot_general %y, %w contract [1] x [0] {autopar.id = "p"} : (tensor<64x32xbf16>, tensor<32x8xbf16>) -> tensor<64x8xbf16>
  return %r, %p : tensor<2048xf32>, tensor<64x8xbf16>
}

// -----

// What a product makes, or the caller, a kernel of its own widens.

// CHECK-LABEL: func.func @product(
// CHECK: autopar.dot_general
// CHECK: autopar.group {{.*}} : (tensor<64x8xbf16>) -> tensor<64x8xf32> {
// CHECK: autopar.group {{.*}} : (tensor<64x32xbf16>) -> tensor<64x32xf32> {
func.func @product(%x: tensor<64x32xbf16>, %w: tensor<32x8xbf16>) -> (tensor<64x8xf32>, tensor<64x32xf32>) {
  %p = autopar.dot_general %x, %w contract [1] x [0] {autopar.id = "p"} : (tensor<64x32xbf16>, tensor<32x8xbf16>) -> tensor<64x8xbf16>
  %c = autopar.cast %p {autopar.id = "c"} : tensor<64x8xbf16> -> tensor<64x8xf32>
  %d = autopar.cast %x {autopar.id = "d"} : tensor<64x32xbf16> -> tensor<64x32xf32>
  return %c, %d : tensor<64x8xf32>, tensor<64x32xf32>
}
