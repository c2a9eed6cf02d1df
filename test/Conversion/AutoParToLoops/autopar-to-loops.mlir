// RUN: autopar-opt %s --autopar-to-loops --canonicalize --cse | FileCheck %s

func.func @elementwise(%x: tensor<8x16x64xf32>) -> tensor<8x16x64xf32> {
  %y = autopar.unary neg %x : tensor<8x16x64xf32>
  return %y : tensor<8x16x64xf32>
}

func.func @softmax(%x: tensor<32x64xf32>) -> tensor<32x64xf32> {
  %y = autopar.softmax %x dim 1 : tensor<32x64xf32>
  return %y : tensor<32x64xf32>
}

func.func @columns(%x: tensor<4x8x64xf32>) -> tensor<64xf32> {
  %y = autopar.reduce sum %x dims [0, 1] : tensor<4x8x64xf32> -> tensor<64xf32>
  return %y : tensor<64xf32>
}

func.func @heads(%x: tensor<4x16x32xf32>) -> tensor<4x2x16x16xf32> {
  %h = autopar.reshape %x : tensor<4x16x32xf32> -> tensor<4x16x2x16xf32>
  %y = autopar.transpose %h permutation [0, 2, 1, 3] : tensor<4x16x2x16xf32> -> tensor<4x2x16x16xf32>
  return %y : tensor<4x2x16x16xf32>
}

func.func @types(%c: tensor<100xi1>, %x: tensor<100xbf16>, %z: tensor<100xbf16>, %n: tensor<100xui8>, %o: tensor<100xui8>) -> (tensor<100xbf16>, tensor<100xui8>) {
  %y = autopar.select %c, %x, %z : (tensor<100xi1>, tensor<100xbf16>, tensor<100xbf16>) -> tensor<100xbf16>
  %m = autopar.binary max %n, %o : tensor<100xui8>
  return %y, %m : tensor<100xbf16>, tensor<100xui8>
}

// One loop over all elements, whatever the shape.
// CHECK-LABEL: func.func @elementwise_0(%arg0: memref<8192xf32>, %arg1: memref<8192xf32>, %arg2: index, %arg3: index) attributes {autopar.extent = 2 : i64}
// CHECK:       scf.for %[[BLOCK:.*]] = %arg2 to %arg3
// CHECK:         scf.for %[[I:.*]] = %{{.*}} to
// CHECK-NEXT:      %[[X:.*]] = memref.load %arg0[%[[I]]]
// CHECK-NEXT:      %[[Y:.*]] = arith.negf %[[X]]
// CHECK-NEXT:      memref.store %[[Y]], %arg1[%[[I]]]

// Three passes over a row; exponentials are computed once.
// CHECK-LABEL: func.func @softmax_0
// CHECK-SAME:  autopar.extent = 32
// CHECK:       %[[BUFFER:.*]] = memref.alloca() {{.*}} : memref<64xf32>
// CHECK:       scf.for
// CHECK:         %[[MAX:.*]] = scf.for
// CHECK:           arith.maxnumf
// CHECK:         %[[SUM:.*]] = scf.for
// CHECK:           %[[E:.*]] = math.exp
// CHECK:           memref.store %[[E]], %[[BUFFER]]
// CHECK:           arith.addf %{{.*}}, %[[E]] fastmath<reassoc,contract>
// CHECK:         %[[R:.*]] = arith.divf %{{.*}}, %[[SUM]]
// CHECK:         scf.for
// CHECK-NOT:       math.exp
// CHECK:           arith.mulf %{{.*}}, %[[R]]

// The innermost loop runs across rows, where memory is contiguous; both reduced dimensions are one.
// CHECK-LABEL: func.func @columns_0
// CHECK-SAME:  autopar.extent = 1
// CHECK:       %[[SUMS:.*]] = memref.alloca() {{.*}} : memref<64xf32>
// CHECK:       scf.for %[[ROW:.*]] = %{{.*}} to %c32
// CHECK:         scf.for %[[COLUMN:.*]] = %{{.*}} to %c64
// CHECK:           memref.load %arg0
// CHECK:           %[[OLD:.*]] = memref.load %[[SUMS]][%[[COLUMN]]]
// CHECK:           arith.addf %[[OLD]]

// Reshape and transposition leave no division behind.
// CHECK-LABEL: func.func @heads_0
// CHECK-NOT:   remui
// CHECK:       memref.store
// CHECK:       return

// CHECK-LABEL: func.func @types_0(%arg0: memref<100xi8>, %arg1: memref<100xbf16>, %arg2: memref<100xbf16>, %arg3: memref<100xbf16>
// CHECK:       arith.cmpi ne
// CHECK:       arith.extf %{{.*}} : bf16 to f32
// CHECK:       arith.truncf %{{.*}} : f32 to bf16
// CHECK-LABEL: func.func @types_1(%arg0: memref<100xi8>, %arg1: memref<100xi8>, %arg2: memref<100xi8>, %arg3: index
// CHECK:       arith.maxui

// The activation and its derivative, as the gradient writes it, share their tanh.
// CHECK-LABEL: func.func @gelu_with_slope_0
// CHECK:       math.tanh
// CHECK-NOT:   math.tanh
// CHECK:       return
func.func @gelu_with_slope(%x: tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  %y:2 = autopar.group %x {autopar.id = "y"} : (tensor<64xf32>) -> (tensor<64xf32>, tensor<64xf32>) {
  ^bb0(%a: tensor<64xf32>):
    %g = autopar.unary gelu_tanh %a : tensor<64xf32>
    %square = autopar.binary mul %a, %a : tensor<64xf32>
    %third = autopar.constant dense<4.471500e-02> : tensor<64xf32>
    %scaled = autopar.binary mul %square, %third : tensor<64xf32>
    %one = autopar.constant dense<1.000000e+00> : tensor<64xf32>
    %bend = autopar.binary add %scaled, %one : tensor<64xf32>
    %bent = autopar.binary mul %a, %bend : tensor<64xf32>
    %root = autopar.constant dense<0.797884583> : tensor<64xf32>
    %inner = autopar.binary mul %bent, %root : tensor<64xf32>
    %t = autopar.unary tanh %inner : tensor<64xf32>
    autopar.yield %g, %t : tensor<64xf32>, tensor<64xf32>
  }
  return %y#0, %y#1 : tensor<64xf32>, tensor<64xf32>
}

// A lookup of bytes that are taken apart: which matrix is picked is data, but the row of 32 numbers is two loops, over bytes and
// over what is in one, so that addresses are sums.

// CHECK-LABEL: func.func @picked_0
// CHECK: scf.for
// CHECK: scf.for %[[BYTE:.*]] = %c0 to %c16
// CHECK: scf.for %[[HALF:.*]] = %c0 to %c2
// CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %[[BYTE]]
// CHECK-NOT: divui
// CHECK: memref.load %arg0
// CHECK: memref.load %arg2
func.func @picked(%t: tensor<8x24x16xui8>, %i: tensor<2x1xi64>, %x: tensor<2x32xf32>) -> tensor<2x24xf32> {
  %r = autopar.group %t, %i, %x : (tensor<8x24x16xui8>, tensor<2x1xi64>, tensor<2x32xf32>) -> tensor<2x24xf32> {
  ^bb0(%a: tensor<8x24x16xui8>, %n: tensor<2x1xi64>, %y: tensor<2x32xf32>):
    %p = autopar.gather %a, %n dims [0] batch 0 : (tensor<8x24x16xui8>, tensor<2x1xi64>) -> tensor<2x24x16xui8>
    %w = autopar.broadcast %p dims [0, 1, 2] : tensor<2x24x16xui8> -> tensor<2x24x16x2xui8>
    %s = autopar.constant dense<[0, 4]> : tensor<2xui8>
    %sh = autopar.broadcast %s dims [3] : tensor<2xui8> -> tensor<2x24x16x2xui8>
    %h = autopar.binary shift_right %w, %sh : tensor<2x24x16x2xui8>
    %m = autopar.reshape %h : tensor<2x24x16x2xui8> -> tensor<2x24x32xui8>
    %f = autopar.cast %m : tensor<2x24x32xui8> -> tensor<2x24x32xf32>
    %b = autopar.broadcast %y dims [0, 2] : tensor<2x32xf32> -> tensor<2x24x32xf32>
    %q = autopar.binary mul %f, %b : tensor<2x24x32xf32>
    %z = autopar.reduce sum %q dims [2] : tensor<2x24x32xf32> -> tensor<2x24xf32>
    autopar.yield %z : tensor<2x24xf32>
  }
  return %r : tensor<2x24xf32>
}
