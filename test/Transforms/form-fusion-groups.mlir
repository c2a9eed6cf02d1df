// RUN: autopar-opt %s --pass-pipeline="builtin.module(func.func(autopar-form-fusion-groups))" | FileCheck %s

// Layer norm with scale and bias is one group, and the sum that it normalizes belongs to it and leaves
// it as well. The bias of a product and its activation are the library's.

// CHECK-LABEL: func.func @block
// CHECK:      %[[NORM:.*]]:2 = autopar.group %arg0, %arg1, %arg2
// CHECK:        autopar.binary add
// CHECK:        autopar.normalize
// CHECK:        autopar.broadcast
// CHECK:        autopar.binary mul
// CHECK:        autopar.yield
// CHECK:      %[[PRODUCT:.*]] = autopar.group %[[NORM]]#1, %arg3, %arg4
// CHECK:        autopar.dot_general
// CHECK:        autopar.binary add
// CHECK:        autopar.unary gelu
// CHECK:      return %[[PRODUCT]], %[[NORM]]#0
func.func @block(%x: tensor<8x64xf32>, %r: tensor<8x64xf32>, %g: tensor<64xf32>, %w: tensor<64x32xf32>, %b: tensor<32xf32>)
    -> (tensor<8x32xf32>, tensor<8x64xf32>) {
  %h = autopar.binary add %x, %r : tensor<8x64xf32>
  %n = autopar.normalize %h dims [1] epsilon 1.0e-5 : tensor<8x64xf32>
  %gb = autopar.broadcast %g dims [1] : tensor<64xf32> -> tensor<8x64xf32>
  %s = autopar.binary mul %n, %gb : tensor<8x64xf32>
  %p = autopar.dot_general %s, %w contract [1] x [0] : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %bb = autopar.broadcast %b dims [1] : tensor<32xf32> -> tensor<8x32xf32>
  %q = autopar.binary add %p, %bb : tensor<8x32xf32>
  %y = autopar.unary gelu %q : tensor<8x32xf32>
  return %y, %h : tensor<8x32xf32>, tensor<8x64xf32>
}

// A residual behind a reshape is added before it, so that the library can do it.

// CHECK-LABEL: func.func @residual
// CHECK:      %[[FLAT:.*]] = autopar.reshape %arg2 : tensor<2x4x32xf32> -> tensor<8x32xf32>
// CHECK:      %[[SUM:.*]] = autopar.group %arg0, %arg1, %[[FLAT]]
// CHECK:        autopar.dot_general
// CHECK:        autopar.binary add
// CHECK:      autopar.reshape %[[SUM]] : tensor<8x32xf32> -> tensor<2x4x32xf32>
func.func @residual(%x: tensor<8x64xf32>, %w: tensor<64x32xf32>, %r: tensor<2x4x32xf32>) -> tensor<2x4x32xf32> {
  %p = autopar.dot_general %x, %w contract [1] x [0] : (tensor<8x64xf32>, tensor<64x32xf32>) -> tensor<8x32xf32>
  %q = autopar.reshape %p : tensor<8x32xf32> -> tensor<2x4x32xf32>
  %y = autopar.binary add %q, %r : tensor<2x4x32xf32>
  return %y : tensor<2x4x32xf32>
}

// Transpositions around products are strides; a sort stays alone; a constant of more than a few
// numbers is a buffer.

// CHECK-LABEL: func.func @alone
// CHECK:      %[[T:.*]] = autopar.transpose %arg1
// CHECK:      autopar.group %arg0, %[[T]]
// CHECK:        autopar.dot_general
// CHECK:      autopar.top_k
// CHECK:      %[[TABLE:.*]] = autopar.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00, 5.000000e+00]>
// CHECK:      autopar.group %{{.*}}, %[[TABLE]]
// CHECK-NOT:    autopar.constant
// CHECK:        autopar.binary mul
func.func @alone(%x: tensor<8x16xf32>, %w: tensor<5x16xf32>) -> tensor<8x5xf32> {
  %t = autopar.transpose %w permutation [1, 0] : tensor<5x16xf32> -> tensor<16x5xf32>
  %p = autopar.dot_general %x, %t contract [1] x [0] : (tensor<8x16xf32>, tensor<16x5xf32>) -> tensor<8x5xf32>
  %v, %i = autopar.top_k %p dim 1 : (tensor<8x5xf32>) -> (tensor<8x5xf32>, tensor<8x5xi64>)
  %c = autopar.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
  %b = autopar.broadcast %c dims [1] : tensor<5xf32> -> tensor<8x5xf32>
  %y = autopar.binary mul %v, %b : tensor<8x5xf32>
  return %y : tensor<8x5xf32>
}

// A few numbers are part of the kernel.

// CHECK-LABEL: func.func @few_numbers
// CHECK-NEXT: autopar.group %arg0 {{.*}}: (tensor<8x2xui8>) -> tensor<8x2xui8> {
// CHECK:        autopar.constant dense<[0, 4]>
func.func @few_numbers(%x: tensor<8x2xui8>) -> tensor<8x2xui8> {
  %c = autopar.constant dense<[0, 4]> : tensor<2xui8>
  %b = autopar.broadcast %c dims [1] : tensor<2xui8> -> tensor<8x2xui8>
  %y = autopar.binary shift_right %x, %b : tensor<8x2xui8>
  return %y : tensor<8x2xui8>
}

// What a product reads cannot share a kernel with what depends on the product.

// CHECK-LABEL: func.func @no_cycle
// CHECK:      %[[A:.*]] = autopar.group %arg0
// CHECK:        autopar.unary exp
// CHECK:      %[[P:.*]] = autopar.group %[[A]] :
// CHECK:        autopar.dot_general
// CHECK:      autopar.group %[[P]], %[[A]]
// CHECK:        autopar.binary mul
func.func @no_cycle(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %a = autopar.unary exp %x : tensor<8x8xf32>
  %p = autopar.dot_general %a, %a contract [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %y = autopar.binary mul %p, %a : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// A table that is also a matrix: the rows that were looked up are added into the gradient of the matrix.

// CHECK-LABEL: func.func @tied
// CHECK:      %[[PRODUCT:.*]] = autopar.group %arg0, %arg1
// CHECK:        autopar.dot_general
// CHECK-NOT:  autopar.binary
// CHECK:      %[[SUM:.*]] = autopar.scatter add %[[PRODUCT]], %arg2, %arg3
// CHECK:      return %[[SUM]]
func.func @tied(%d: tensor<32x100xf32>, %h: tensor<32x16xf32>, %ids: tensor<32x1xi64>, %g: tensor<32x16xf32>) -> tensor<100x16xf32> {
  %zero = autopar.constant dense<0.0> : tensor<100x16xf32>
  %s = autopar.scatter add %zero, %ids, %g : (tensor<100x16xf32>, tensor<32x1xi64>, tensor<32x16xf32>) -> tensor<100x16xf32>
  %p = autopar.dot_general %d, %h contract [0] x [0] : (tensor<32x100xf32>, tensor<32x16xf32>) -> tensor<100x16xf32>
  %y = autopar.binary add %s, %p : tensor<100x16xf32>
  return %y : tensor<100x16xf32>
}

// A scatter that something else reads stays what it is.

// CHECK-LABEL: func.func @read_twice
// CHECK:      %[[TABLE:.*]] = autopar.scatter add %{{.*}}, %arg1, %arg2
// CHECK:      autopar.group
// CHECK:        autopar.binary add
func.func @read_twice(%x: tensor<100x16xf32>, %ids: tensor<32x1xi64>, %g: tensor<32x16xf32>) -> (tensor<100x16xf32>, tensor<100x16xf32>) {
  %zero = autopar.constant dense<0.0> : tensor<100x16xf32>
  %s = autopar.scatter add %zero, %ids, %g : (tensor<100x16xf32>, tensor<32x1xi64>, tensor<32x16xf32>) -> tensor<100x16xf32>
  %y = autopar.binary add %x, %s : tensor<100x16xf32>
  return %y, %s : tensor<100x16xf32>, tensor<100x16xf32>
}

// What a kernel of the forward pass makes for the backward pass besides does not hold it up.

// CHECK-LABEL: func.func @early
// CHECK:      %[[Y:.*]]:2 = autopar.group %arg0 {autopar.id = "y"}
// CHECK:      autopar.group %[[Y]]#0, %arg1 {autopar.id = "z"}
// CHECK:      autopar.group %arg2 {autopar.id = "w/vjp.0"}
func.func @early(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %u: tensor<4x8xf32>)
    -> (tensor<8x4xf32>, tensor<8x8xf32>) {
  %y = autopar.unary exp %x {autopar.id = "y"} : tensor<8x4xf32>
  %z = autopar.dot_general %y, %w contract [1] x [0] {autopar.id = "z"} : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %v = autopar.unary neg %u {autopar.id = "w/vjp.0", autopar.phase = "backward"} : tensor<4x8xf32>
  %s = autopar.unary tanh %y {autopar.id = "y/vjp.0", autopar.phase = "backward"} : tensor<8x4xf32>
  %g = autopar.dot_general %s, %v contract [1] x [0] {autopar.id = "y/vjp.1", autopar.phase = "backward"} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return %z, %g : tensor<8x4xf32>, tensor<8x8xf32>
}

// What gives nothing stays where it is.
// CHECK-LABEL: func.func @messages
// CHECK: autopar.send
func.func @messages(%x: tensor<8xf32>) {
  autopar.send %x to 0 tag 0 : tensor<8xf32>
  return
}
