// RUN: autopar-opt %s --autopar-to-exec=channel-block=1 | FileCheck %s

// Bias, residual and relu go into the call; the filter is packed. A transposed convolution becomes
// loops: the input spread and padded once, then one term per filter position.

// CHECK: exec.entry @load
// CHECK-NEXT: exec.read "w"
// CHECK-NEXT: exec.pack {{.*}} for #exec.convolution<x = tensor<1x8x6x6xf32>
// CHECK: exec.entry @step
// CHECK-NEXT: exec.convolution {{.*}} bias {{.*}} residual {{.*}} <x = tensor<1x8x6x6xf32>, w = tensor<8x8x3x3xf32>, y = tensor<1x8x6x6xf32>, strides = [1, 1], padsBegin = [1, 1], padsEnd = [1, 1], dilations = [1, 1], biasType = f32, residual = true, epilogue = relu, packedW = true>
// CHECK-NEXT: exec.launch @k0
// CHECK-NEXT: exec.launch @k1
// CHECK-NEXT: exec.launch @k2
// CHECK-NEXT: exec.launch @k3
// CHECK-NEXT: exec.launch @k4
// CHECK-NEXT: {{^ *}}}
autopar.origin @w : tensor<8x8x3x3xf32> in "m.onnx" at 0
func.func @main(%x: tensor<1x8x6x6xf32> {autopar.name = "x"}, %w: tensor<8x8x3x3xf32> {autopar.name = "w", autopar.origin = @w},
                %b: tensor<8xf32> {autopar.name = "b"}, %u: tensor<4x8x2x2xf32> {autopar.name = "u"})
    -> (tensor<1x4x12x12xf32> {autopar.name = "y"}) {
  %h = autopar.group %x, %w, %b {autopar.id = "conv"} : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>, tensor<8xf32>) -> tensor<1x8x6x6xf32> {
  ^bb0(%gx: tensor<1x8x6x6xf32>, %gw: tensor<8x8x3x3xf32>, %gb: tensor<8xf32>):
    %0 = autopar.convolution %gx, %gw {strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 1, 1>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x6x6xf32>, tensor<8x8x3x3xf32>) -> tensor<1x8x6x6xf32>
    %1 = autopar.broadcast %gb dims [1] : tensor<8xf32> -> tensor<1x8x6x6xf32>
    %2 = autopar.binary add %0, %1 : tensor<1x8x6x6xf32>
    %3 = autopar.binary add %2, %gx : tensor<1x8x6x6xf32>
    %4 = autopar.unary relu %3 : tensor<1x8x6x6xf32>
    autopar.yield %4 : tensor<1x8x6x6xf32>
  }
  %y = autopar.convolution %h, %u {autopar.id = "up", strides = array<i64: 1, 1>, padBegin = array<i64: 1, 1>, padEnd = array<i64: 1, 1>, inputDilation = array<i64: 2, 2>, filterDilation = array<i64: 1, 1>, groups = 1 : i64} : (tensor<1x8x6x6xf32>, tensor<4x8x2x2xf32>) -> tensor<1x4x12x12xf32>
  return %y : tensor<1x4x12x12xf32>
}
